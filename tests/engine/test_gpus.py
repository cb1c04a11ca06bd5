"""Every strategy on this machine's GPUs, chosen by UUID. Skipped where there is none."""

from __future__ import annotations

import pytest

from engine import catalog
from engine.run_state import RunState
from engine.strategy import Strategy
from engine.telemetry.probe import gpu_uuids
from tests.support.runs import curve, logs, spec, train

RECIPE = {"torch": "digits", "keras": "digits_keras"}

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def gpus() -> tuple[str, ...]:
    """Two GPUs where there are two."""
    found = gpu_uuids()[:2]
    if not found:
        pytest.skip("NVML finds no NVIDIA GPU on this machine")
    return found


@pytest.mark.parametrize("strategy", catalog.strategies(), ids=lambda strategy: strategy.name)
def test_it_trains_on_gpus_and_records_them(strategy: Strategy, gpus: tuple[str, ...]) -> None:
    devices = gpus[:1] if strategy.problems(gpus) else gpus
    info = train(
        spec(
            RECIPE[min(strategy.recipe_frameworks)],
            strategy.name,
            devices=devices,
            epochs=200,  # a few seconds: the devices are looked at once a second
            batch_size=128,
            learning_rate=0.003,
        )
    )
    assert info.state is RunState.FINISHED, f"{info.reason}\n{logs(info)}"
    assert info.status.metrics["validation/accuracy"] >= 0.95
    for device in devices:
        steps, _ = curve(info, f"device/{device}/memory")
        assert steps, f"no figures of {device} were recorded"
