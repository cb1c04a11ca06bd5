"""A run that was killed and resumed equals one that was never interrupted."""

from __future__ import annotations

from typing import Any

import pytest

from engine.client import RunInfo
from engine.spec import catalog
from engine.spec.strategy import Strategy
from tests.support.contract import (
    AS_ANOTHER,
    STEPS,
    accumulated,
    assert_alike,
    interrupted,
    offers,
    probe,
    went_on,
)

pytestmark = pytest.mark.usefixtures("processes")

OPTIONS: dict[str, Any] = {
    "epochs": 6,
    "optimizer": "adamw",
    "learning_rate": 0.01,
    "schedule": "one_cycle",
    "accumulation": 2,
    "checkpoint_steps": STEPS // 2,
    "settings": {"dropout": 0.2},
}

WITH_DRAWS = ("torch/ddp", "tf/mirrored")
"""Strategies that are killed, and draw random numbers, in the push tier too."""

EXACT = [
    pytest.param(
        strategy,
        id=strategy.name,
        marks=[] if strategy.name in WITH_DRAWS else [pytest.mark.nightly],
    )
    for strategy in catalog.recipe_strategies()
    # On CPUs torch/data_parallel is torch/single.
    if strategy.is_synchronous and strategy.name != "torch/data_parallel"
]


@pytest.mark.parametrize("strategy", EXACT)
def test_killed_and_resumed_equals_uninterrupted(strategy: Strategy) -> None:
    """Weights, optimizer, learning rate, random draws, order of samples and recorded curve.

    The killed run had done all steps. From its first checkpoint on, in the middle of an epoch, they
    are done again.
    """
    options = {name: value for name, value in OPTIONS.items() if offers(strategy, name)}
    killed = interrupted(probe(strategy, **options))
    assert_alike(went_on(killed), killed, *exactly(killed))


OF_ONE_PROCESS = ("torch/single", "torch/model_parallel", "tf/model_parallel")
"""Strategies that save and restore as another one does: all of these resume in the night tier."""

OTHERS = [
    strategy
    for strategy in catalog.recipe_strategies()
    if strategy.is_synchronous
    and strategy.name not in (*WITH_DRAWS, *AS_ANOTHER, *OF_ONE_PROCESS, "torch/data_parallel")
]


@pytest.mark.parametrize("strategy", OTHERS, ids=lambda strategy: strategy.name)
def test_what_goes_on_from_its_middle_ends_as_before(strategy: Strategy) -> None:
    """The run that other tests compare with one device, from the middle of its third epoch on."""
    before = accumulated(strategy)
    assert_alike(went_on(before, cold_start=False), before, *exactly(before))


def exactly(info: RunInfo) -> tuple[list[str], float]:
    """What is compared, and how much several processes may differ: they add in any order."""
    series = ["train/loss"]
    if offers(catalog.strategy(info.spec.strategy), "schedule"):
        series.append("train/learning_rate")
    return series, 0.0 if len(info.status.worker_pids) == 1 else 1e-6


OTHER_STRATEGIES = [
    pytest.param("torch/ddp", "torch/ddp", 4, marks=pytest.mark.nightly),
    pytest.param("torch/ddp", "torch/single", 1, marks=pytest.mark.nightly),
    ("torch/ddp", "torch/fsdp", 2),
    pytest.param("torch/ddp", "torch/pipeline", 2, marks=pytest.mark.nightly),
    pytest.param("tf/mirrored", "tf/mirrored", 3, marks=pytest.mark.nightly),
    ("tf/mirrored", "tf/single", 1),
    pytest.param("tf/mirrored", "tf/multi_worker", 2, marks=pytest.mark.nightly),
    pytest.param("tf/mirrored", "tf/model_parallel", 2, marks=pytest.mark.nightly),
]
"""The strategy of the first attempt, and strategy and number of devices of the second."""


@pytest.mark.parametrize(("began", "name", "devices"), OTHER_STRATEGIES)
def test_a_checkpoint_is_resumed_under_another_strategy(
    began: str, name: str, devices: int
) -> None:
    before = accumulated(catalog.strategy(began))
    chosen = tuple(f"cpu:{k}" for k in range(devices))
    resumed = went_on(before, strategy=name, devices=chosen, cold_start=False)
    assert (resumed.spec.strategy, resumed.spec.devices) == (name, chosen)
    assert_alike(resumed, before)
