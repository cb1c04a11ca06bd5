"""The promises of every strategy, checked on real runs; new strategy files are found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from engine.client import RunInfo
from engine.facts.run_facts import read_facts
from engine.messages.events import CheckpointSaved, Paused, Resumed
from engine.runs.run_state import RunState
from engine.spec import catalog
from engine.spec.strategy import Strategy
from tests.support.cluster_machine import two_machines
from tests.support.contract import (
    AS_ANOTHER,
    DEMANDING,
    STEPS,
    accumulated,
    assert_alike,
    devices_for,
    emptied_devices,
    offers,
    plain,
    probe,
    reference_for,
    requested_checkpoints,
)
from tests.support.runs import curve, events, logs, train
from tests.support.trained_runs import trained

SERIES = ("train/loss", "train/learning_rate", "train/gradient_norm")

TORCH = [strategy for strategy in catalog.recipe_strategies() if strategy.framework == "torch"]
SYNCHRONOUS = [strategy for strategy in catalog.recipe_strategies() if strategy.is_synchronous]
SPREAD = [
    strategy
    for strategy in catalog.recipe_strategies()
    if strategy.spans_machines and devices_for(strategy) > 1
]
ACCUMULATING = [strategy for strategy in SYNCHRONOUS if offers(strategy, "accumulation")]


ACCUMULATE_ALIKE = (*AS_ANOTHER, "tf/model_parallel")
"""Strategies that accumulate with the code of tf/mirrored (`engine/tf/replica.py`)."""


def name_of(strategy: Strategy) -> str:
    return strategy.name


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory, processes: None) -> Iterator[Path]:
    """The data folder of a machine whose runs can use devices of `gpus`, a second Ray node on this
    machine."""
    pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[cluster]'")
    with two_machines(tmp_path_factory.mktemp("machines")) as (machine, _):
        yield machine.home


def spread(desk: Path, strategy: Strategy, **changes: Any) -> RunInfo:
    """A short run on a device of each of the two machines."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRAINDECK_HOME", str(desk))
        info = train(replace(probe(strategy, **changes), devices=("cpu:0", "gpus/cpu:0")))
    assert info.state is RunState.FINISHED, f"{info.reason}\n{logs(info)}"
    return info


@pytest.fixture(params=catalog.recipe_strategies(), ids=name_of)
def strategy(request: pytest.FixtureRequest) -> Strategy:
    found: Strategy = request.param
    return found


def assert_learns(info: RunInfo) -> None:
    steps, losses = curve(info, "train/loss")
    assert steps[:STEPS] == list(range(1, STEPS + 1))
    assert sum(losses[STEPS - 4 : STEPS]) < 0.5 * sum(losses[:4])


@pytest.mark.usefixtures("processes")
def test_the_loss_falls(strategy: Strategy) -> None:
    assert_learns(plain(strategy))


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("strategy", SYNCHRONOUS, ids=name_of)
def test_replicas_at_one_global_batch_train_like_one_device(strategy: Strategy) -> None:
    """Also in the last batch of an epoch, which has one sample: one replica has none."""
    assert_alike(plain(strategy), plain(reference_for(strategy), devices=1))


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    "strategy",
    [
        pytest.param(each, marks=[pytest.mark.nightly] if each.name in ACCUMULATE_ALIKE else [])
        for each in ACCUMULATING
        if each.name != "torch/data_parallel"  # on CPUs it is torch/single
    ],
    ids=name_of,
)
def test_accumulation_trains_like_one_step_over_the_whole_batch(strategy: Strategy) -> None:
    """With an optimizer, a schedule and clipping that see the gradient of the whole batch."""
    reference = trained(probe(reference_for(strategy), devices=1, **DEMANDING))
    assert_alike(accumulated(strategy), reference, SERIES)


@pytest.mark.nightly
@pytest.mark.parametrize("strategy", SPREAD, ids=name_of)
def test_over_two_machines_it_trains_like_one_device(strategy: Strategy, desk: Path) -> None:
    ours = spread(desk, strategy)
    if strategy.is_synchronous:
        assert_alike(ours, plain(reference_for(strategy), devices=1))
    else:
        assert_learns(ours)


@pytest.mark.nightly
@pytest.mark.parametrize("strategy", [each for each in ACCUMULATING if each in SPREAD], ids=name_of)
def test_over_two_machines_accumulation_trains_like_one_step(
    strategy: Strategy, desk: Path
) -> None:
    reference = trained(probe(reference_for(strategy), devices=1, **DEMANDING))
    assert_alike(spread(desk, strategy, accumulation=3, **DEMANDING), reference, SERIES)


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("strategy", TORCH, ids=name_of)
def test_every_rank_reports_its_shares_of_time(strategy: Strategy) -> None:
    info = plain(strategy)
    for plan in strategy.pool(info.spec.slots):
        shares = [
            curve(info, f"rank/{plan.rank}/{part}_share")[1]
            for part in ("data", "compute", "communication")
        ]
        assert all(len(values) >= 1 for values in shares)
        for of_one_moment in zip(*shares, strict=True):
            assert sum(of_one_moment) == pytest.approx(1)
            assert min(of_one_moment) >= 0


@pytest.mark.usefixtures("processes")
def test_the_step_time_is_a_curve(strategy: Strategy) -> None:
    info = plain(strategy)
    steps, seconds = curve(info, "train/step_seconds")
    assert steps
    assert steps[0] > 2, "the first steps also compile"
    assert min(seconds) > 0


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("strategy", SYNCHRONOUS, ids=name_of)
def test_every_rank_reports_its_memory(strategy: Strategy) -> None:
    info = plain(strategy)
    for plan in strategy.pool(info.spec.slots):
        assert min(curve(info, f"rank/{plan.rank}/memory_resident")[1]) > 1e6


@pytest.mark.usefixtures("processes")
def test_the_layers_of_the_whole_model_are_recorded(strategy: Strategy) -> None:
    info = plain(strategy)
    facts = read_facts(info.folder)
    assert facts.attempt is not None
    assert facts.attempt.packages
    assert facts.model is not None
    assert facts.model.problem == ""
    assert facts.model.trainable == info.status.parameters > 0
    names = [layer.path for layer in facts.model.layers]
    assert names[0] == ""
    assert len(names) == len(set(names)) > 1
    assert facts.model.bytes >= 4 * facts.model.parameters


def test_it_describes_itself(strategy: Strategy) -> None:
    assert strategy.framework in ("torch", "tf")
    assert strategy.short_name
    assert strategy.title
    assert strategy.summary.endswith(".")
    assert strategy.needs
    assert strategy.recipe_frameworks
    ranks = [plan.rank for plan in strategy.pool(("cpu:0", "cpu:1"))]
    assert ranks == list(range(len(ranks)))
    assert all(reason.endswith(".") for reason in strategy.refusals.values())


@pytest.mark.usefixtures("processes")
def test_commands_are_honoured_at_one_step(strategy: Strategy) -> None:
    info = plain(strategy)
    said = events(info)
    [requested] = requested_checkpoints(info)
    assert str(requested) in [event.path for event in said if isinstance(event, CheckpointSaved)]
    assert emptied_devices(info) == {f"cpu:{k}" for k in range(devices_for(strategy))}
    [paused] = [event for event in said if isinstance(event, Paused)]
    assert not paused.freed_devices
    assert [event.step for event in said if isinstance(event, Resumed)] == [paused.step]
    assert info.state is RunState.STOPPED
    assert info.status.checkpoint_step == info.status.step
