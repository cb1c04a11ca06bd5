"""A run that was killed and resumed equals one that was never interrupted."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from engine import client
from engine.client import RunInfo
from engine.runs.run_state import RunState
from engine.spec import catalog
from engine.spec.strategy import Strategy
from engine.system import paths
from tests.support.contract import (
    TrainedRuns,
    killed_after_checkpoint,
    last_checkpoint,
    offers,
    probe,
    reference_for,
    validation,
)
from tests.support.runs import curve, wait_for_end
from tests.support.weights import largest_difference

pytestmark = pytest.mark.usefixtures("processes")

HALF = 10
"""Steps before the kill, in the middle of an epoch, of 20 in all."""

OPTIONS: dict[str, Any] = {
    "optimizer": "adamw",
    "learning_rate": 0.01,
    "schedule": "one_cycle",
    "accumulation": 2,
    "checkpoint_steps": HALF,
    "settings": {"dropout": 0.2},
}

EXACT = [
    strategy
    for strategy in catalog.recipe_strategies()
    # On CPUs torch/data_parallel is torch/single.
    if strategy.is_synchronous and strategy.name != "torch/data_parallel"
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> TrainedRuns:
    return TrainedRuns(tmp_path_factory.mktemp("exact"))


def killed_half_way(strategy: Strategy, **options: Any) -> RunInfo:
    """A run whose processes were all killed after the checkpoint in the middle."""
    settings = options.pop("settings", {}) | {"hold": True}
    return killed_after_checkpoint(probe(strategy, settings=settings, **options), HALF)


@pytest.mark.parametrize("strategy", EXACT, ids=lambda strategy: strategy.name)
def test_killed_and_resumed_equals_uninterrupted(strategy: Strategy, trained: TrainedRuns) -> None:
    """Weights, optimizer, learning rate, random draws, order of samples and recorded curve."""
    options = {name: value for name, value in OPTIONS.items() if offers(strategy, name)}
    reference = trained[probe(strategy, **options)]
    run_id = killed_half_way(strategy, **options).id
    client.resume(run_id)
    resumed = wait_for_end(run_id)
    assert resumed.state is RunState.FINISHED, resumed.reason

    alone = len(strategy.pool(resumed.spec.slots)) == 1
    tolerance = 0.0 if alone else 1e-6
    for series in ("train/loss", "train/learning_rate"):
        ours, theirs = curve(resumed, series), curve(reference, series)
        assert ours[0] == theirs[0]
        assert ours[1] == pytest.approx(theirs[1], rel=0, abs=tolerance)
    assert validation(resumed) == pytest.approx(validation(reference), rel=0, abs=tolerance)
    assert largest_difference(last_checkpoint(resumed), last_checkpoint(reference)) <= tolerance


OTHER_STRATEGIES = [
    ("torch/ddp", "torch/ddp", 4),
    ("torch/ddp", "torch/single", 1),
    ("torch/ddp", "torch/fsdp", 2),
    ("torch/ddp", "torch/pipeline", 2),
    ("tf/mirrored", "tf/mirrored", 3),
    ("tf/mirrored", "tf/single", 1),
    ("tf/mirrored", "tf/multi_worker", 2),
    ("tf/mirrored", "tf/model_parallel", 2),
]
"""The strategy of the first attempt, and strategy and number of devices of the second."""


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], RunInfo]:
    """Killed runs of two replicas without dropout, by the strategy's name."""
    home = tmp_path_factory.mktemp("elsewhere")

    @cache
    def run(name: str) -> RunInfo:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TRAINDECK_HOME", str(home))
            options = OPTIONS | {"settings": {"dropout": 0.0}}
            return killed_half_way(catalog.strategy(name), **options)

    return run


@pytest.mark.parametrize(("began", "name", "devices"), OTHER_STRATEGIES)
def test_a_checkpoint_is_resumed_under_another_strategy(
    began: str,
    name: str,
    devices: int,
    interrupted: Callable[[str], RunInfo],
    trained: TrainedRuns,
) -> None:
    folder: Path = paths.create_run_folder()
    shutil.rmtree(folder)
    before = interrupted(began)
    shutil.copytree(before.folder, folder)
    chosen = tuple(f"cpu:{k}" for k in range(devices))
    client.resume(folder.name, spec=replace(before.spec, strategy=name, devices=chosen))
    resumed = wait_for_end(folder.name)
    assert resumed.state is RunState.FINISHED, resumed.reason
    assert (resumed.spec.strategy, resumed.spec.devices) == (name, chosen)

    options = OPTIONS | {"settings": {}}
    reference = trained[probe(reference_for(catalog.strategy(name)), devices=1, **options)]
    ours, theirs = curve(resumed, "train/loss"), curve(reference, "train/loss")
    assert ours[0] == theirs[0]
    assert ours[1] == pytest.approx(theirs[1], abs=1e-5)
    assert largest_difference(last_checkpoint(resumed), last_checkpoint(reference)) < 1e-5
