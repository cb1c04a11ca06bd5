"""A run that was killed and resumed equals one that was never interrupted."""

from __future__ import annotations

from typing import Any

import pytest

from engine.spec import catalog
from engine.spec.strategy import Strategy
from tests.support.contract import (
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

AS_ANOTHER = ("tf/central_storage", "tf/mirrored_fit", "tf/multi_worker")
"""Strategies that save and restore with the code of another one of the list: in the night tier."""

EXACT = [
    pytest.param(
        strategy,
        id=strategy.name,
        marks=[pytest.mark.nightly] if strategy.name in AS_ANOTHER else [],
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
    tolerance = 0.0 if len(strategy.pool(killed.spec.slots)) == 1 else 1e-6
    series = ["train/loss", *(["train/learning_rate"] if "schedule" in options else [])]
    assert_alike(went_on(killed), killed, series, tolerance=tolerance)


OTHER_STRATEGIES = [
    pytest.param("torch/ddp", "torch/ddp", 4, marks=pytest.mark.nightly),
    ("torch/ddp", "torch/single", 1),
    ("torch/ddp", "torch/fsdp", 2),
    ("torch/ddp", "torch/pipeline", 2),
    pytest.param("tf/mirrored", "tf/mirrored", 3, marks=pytest.mark.nightly),
    ("tf/mirrored", "tf/single", 1),
    pytest.param("tf/mirrored", "tf/multi_worker", 2, marks=pytest.mark.nightly),
    ("tf/mirrored", "tf/model_parallel", 2),
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
