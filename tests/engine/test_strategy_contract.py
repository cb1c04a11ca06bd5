"""The promises of every strategy, checked on real runs; new strategy files are found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from engine import client
from engine.facts.run_facts import read_facts
from engine.messages.commands import EmptyCache, Pause, Resume, SaveCheckpoint, Stop
from engine.messages.events import CacheEmptied, CheckpointSaved, Paused, Resumed
from engine.runs.run_state import RunState
from engine.spec import catalog
from engine.spec.run_spec import RunSpec
from engine.spec.strategy import Strategy
from tests.support.cluster_machine import two_machines
from tests.support.contract import (
    TrainedRuns,
    devices_for,
    last_checkpoint,
    offers,
    probe,
    reference_for,
    validation,
)
from tests.support.runs import (
    curve,
    events,
    is_training,
    wait_for,
    wait_for_end,
    wait_for_event,
    wait_until_gone,
)
from tests.support.weights import largest_difference

LONG = 1_000_000
"""Epochs of a run that ends only by a command."""

DEMANDING: dict[str, Any] = {
    "optimizer": "adamw",
    "learning_rate": 0.01,
    "weight_decay": 0.1,
    "schedule": "cosine",
    "warmup_steps": 3,
    "clip_norm": 0.5,
}
"""Options that go wrong as soon as one rank's gradients differ."""

COLD = ("torch/ddp", "torch/keras_ddp", "tf/mirrored")
"""Strategies of which one run imports its framework, and must train like one that was forked."""

TORCH = [strategy for strategy in catalog.recipe_strategies() if strategy.framework == "torch"]
SYNCHRONOUS = [strategy for strategy in catalog.recipe_strategies() if strategy.is_synchronous]
SPREAD = [
    strategy
    for strategy in catalog.recipe_strategies()
    if strategy.spans_machines and devices_for(strategy) > 1
]
ACCUMULATING = [strategy for strategy in SYNCHRONOUS if offers(strategy, "accumulation")]


def name_of(strategy: Strategy) -> str:
    return strategy.name


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> TrainedRuns:
    return TrainedRuns(tmp_path_factory.mktemp("contract"))


@pytest.fixture(scope="module")
def on_two_machines(
    tmp_path_factory: pytest.TempPathFactory, processes: None
) -> Iterator[TrainedRuns]:
    """Runs that can use devices of `gpus`, a second Ray node on this machine."""
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'traindeck[cluster]'")
    with two_machines(tmp_path_factory.mktemp("machines")) as (desk, _):
        yield TrainedRuns(desk.home)


def spread(strategy: Strategy, **changes: Any) -> RunSpec:
    """A short run on a device of each of the two machines."""
    return replace(probe(strategy, **changes), devices=("cpu:0", "gpus/cpu:0"))


@pytest.fixture(params=catalog.recipe_strategies(), ids=name_of)
def strategy(request: pytest.FixtureRequest) -> Strategy:
    found: Strategy = request.param
    return found


@pytest.fixture
def run_id(strategy: Strategy) -> Iterator[str]:
    """A long run that trains; it is ended after the test."""
    started = client.start(probe(strategy, epochs=LONG))
    try:
        wait_for(started, is_training)
        yield started
    finally:
        if not client.get_run(started).state.is_over:
            client.send(started, Stop(now=True))
            wait_for_end(started)


@pytest.mark.usefixtures("processes")
def test_the_loss_falls(strategy: Strategy, trained: TrainedRuns) -> None:
    _, losses = curve(trained[probe(strategy)], "train/loss")
    assert sum(losses[-4:]) < 0.5 * sum(losses[:4])


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("strategy", SYNCHRONOUS, ids=name_of)
def test_replicas_at_one_global_batch_train_like_one_device(
    strategy: Strategy, trained: TrainedRuns
) -> None:
    """Also in the last batch of an epoch, which has one sample: one replica has none."""
    ours, reference = trained[probe(strategy)], trained[probe(reference_for(strategy), devices=1)]
    assert curve(ours, "train/loss")[1] == pytest.approx(
        curve(reference, "train/loss")[1], abs=1e-5
    )
    assert validation(ours) == pytest.approx(validation(reference), abs=1e-5)
    assert largest_difference(last_checkpoint(ours), last_checkpoint(reference)) < 1e-5


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("strategy", ACCUMULATING, ids=name_of)
def test_accumulation_trains_like_one_step_over_the_whole_batch(
    strategy: Strategy, trained: TrainedRuns
) -> None:
    """With an optimizer, a schedule and clipping that see the gradient of the whole batch."""
    cold = strategy.name in COLD
    ours = trained[probe(strategy, accumulation=3, cold_start=cold, **DEMANDING)]
    reference = trained[probe(reference_for(strategy), devices=1, **DEMANDING)]
    for series in ("train/loss", "train/learning_rate", "train/gradient_norm"):
        assert curve(ours, series)[1] == pytest.approx(curve(reference, series)[1], abs=1e-5)
    assert largest_difference(last_checkpoint(ours), last_checkpoint(reference)) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("strategy", SPREAD, ids=name_of)
def test_over_two_machines_it_trains_like_one_device(
    strategy: Strategy, trained: TrainedRuns, on_two_machines: TrainedRuns
) -> None:
    ours = on_two_machines[spread(strategy)]
    if not strategy.is_synchronous:
        _, losses = curve(ours, "train/loss")
        assert sum(losses[-4:]) < 0.5 * sum(losses[:4])
        return
    reference = trained[probe(reference_for(strategy), devices=1)]
    assert curve(ours, "train/loss")[1] == pytest.approx(
        curve(reference, "train/loss")[1], abs=1e-5
    )
    assert validation(ours) == pytest.approx(validation(reference), abs=1e-5)
    assert largest_difference(last_checkpoint(ours), last_checkpoint(reference)) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [each for each in ACCUMULATING if each in SPREAD], ids=name_of)
def test_over_two_machines_accumulation_trains_like_one_step(
    strategy: Strategy, trained: TrainedRuns, on_two_machines: TrainedRuns
) -> None:
    ours = on_two_machines[spread(strategy, accumulation=3, **DEMANDING)]
    reference = trained[probe(reference_for(strategy), devices=1, **DEMANDING)]
    for series in ("train/loss", "train/learning_rate", "train/gradient_norm"):
        assert curve(ours, series)[1] == pytest.approx(curve(reference, series)[1], abs=1e-5)
    assert largest_difference(last_checkpoint(ours), last_checkpoint(reference)) < 1e-5


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("strategy", TORCH, ids=name_of)
def test_every_rank_reports_its_shares_of_time(strategy: Strategy, trained: TrainedRuns) -> None:
    info = trained[probe(strategy)]
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
def test_the_step_time_is_a_curve(strategy: Strategy, trained: TrainedRuns) -> None:
    info = trained[probe(strategy)]
    steps, seconds = curve(info, "train/step_seconds")
    assert steps
    assert steps[0] > 2, "the first steps also compile"
    assert min(seconds) > 0


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("strategy", SYNCHRONOUS, ids=name_of)
def test_every_rank_reports_its_memory(strategy: Strategy, trained: TrainedRuns) -> None:
    info = trained[probe(strategy)]
    for plan in strategy.pool(info.spec.slots):
        assert min(curve(info, f"rank/{plan.rank}/memory_resident")[1]) > 1e6


@pytest.mark.usefixtures("processes")
def test_the_layers_of_the_whole_model_are_recorded(
    strategy: Strategy, trained: TrainedRuns
) -> None:
    info = trained[probe(strategy)]
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
def test_commands_are_honoured_at_one_step(strategy: Strategy, run_id: str) -> None:
    devices = {f"cpu:{k}" for k in range(devices_for(strategy))}

    seq = client.send(run_id, SaveCheckpoint())
    saved = wait_for_event(run_id, CheckpointSaved, seq)
    assert [info.folder for info in client.run_checkpoints(run_id)] == [Path(saved.path)]

    seq = client.send(run_id, EmptyCache())
    wait_for(
        run_id,
        lambda info: (
            {e.device for e in events(info, seq) if isinstance(e, CacheEmptied)} == devices
        ),
    )

    seq = client.send(run_id, Pause())
    paused = wait_for_event(run_id, Paused, seq)
    assert wait_for(run_id, lambda info: info.state is RunState.PAUSED).status.step == paused.step
    seq = client.send(run_id, Resume())
    assert wait_for_event(run_id, Resumed, seq).step == paused.step

    client.send(run_id, Stop())
    stopped = wait_for_end(run_id)
    assert stopped.state is RunState.STOPPED
    assert stopped.status.checkpoint_step == stopped.status.step
    wait_until_gone(stopped)
