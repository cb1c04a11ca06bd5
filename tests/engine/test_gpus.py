"""Every strategy on this machine's GPUs, chosen by UUID. Skipped where there is none."""

from __future__ import annotations

import pytest

from engine import client
from engine.messages.commands import Pause, Resume, Stop
from engine.messages.events import Paused
from engine.runs.run_state import RunState
from engine.spec import catalog
from engine.spec.strategy import Strategy
from engine.telemetry.helper_client import gpu_uuids
from tests.support.runs import (
    curve,
    is_training,
    logs,
    spec,
    train,
    wait_for,
    wait_for_end,
    wait_for_event,
)

RECIPE = {"torch": "digits", "keras": "digits_keras"}

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def gpus(processes: None) -> tuple[str, ...]:
    """Two GPUs where there are two."""
    found = gpu_uuids()[:2]
    if not found:
        pytest.skip("NVML finds no NVIDIA GPU on this machine")
    return found


@pytest.mark.parametrize(
    "strategy", catalog.recipe_strategies(), ids=lambda strategy: strategy.name
)
def test_it_trains_on_gpus_and_records_them(strategy: Strategy, gpus: tuple[str, ...]) -> None:
    devices = gpus[:1] if strategy.problems(gpus) else gpus
    if reasons := strategy.problems(devices):
        pytest.skip(reasons[0])
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


@pytest.mark.parametrize("precision", ["default", "fp32", "tf32", "bf16", "fp16"])
def test_every_precision_trains_on_a_gpu(precision: str, gpus: tuple[str, ...]) -> None:
    info = train(
        spec(
            "digits", "torch/single", gpus[:1], epochs=10, learning_rate=0.003, precision=precision
        )
    )
    assert info.state is RunState.FINISHED, f"{info.reason}\n{logs(info)}"
    assert info.status.metrics["validation/accuracy"] >= 0.9


@pytest.mark.parametrize("name", ["torch/single", "torch/ddp", "torch/fsdp"])
def test_a_pause_can_free_the_gpus_and_take_them_back(name: str, gpus: tuple[str, ...]) -> None:
    devices = gpus[:1] if name == "torch/single" else gpus
    run_id = client.start(spec("digits", name, devices, epochs=1_000_000, learning_rate=0.003))
    wait_for(run_id, is_training)
    seq = client.send(run_id, Pause(free_devices=True))
    paused = wait_for_event(run_id, Paused, seq)
    assert paused.freed_devices
    client.send(run_id, Resume())
    wait_for(run_id, lambda info: info.status.step > paused.step + 10)
    client.send(run_id, Stop())
    assert wait_for_end(run_id).state is RunState.STOPPED


def test_a_gpu_can_be_split_among_workers(gpus: tuple[str, ...]) -> None:
    info = train(spec("digits", "torch/ddp", gpus[:1], epochs=3, workers_per_device=2))
    assert info.state is RunState.FINISHED, f"{info.reason}\n{logs(info)}"
    assert info.status.replicas == 2
