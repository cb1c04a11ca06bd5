"""What every strategy promises, checked on real runs; a new strategy file is found by itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from engine import catalog, client
from engine.client import RunInfo
from engine.commands import EmptyCache, Pause, Resume, SaveCheckpoint, Stop
from engine.events import CacheEmptied, CheckpointSaved, Paused, Resumed, RunEnded
from engine.run_state import RunState
from engine.strategy import Strategy
from tests.support.runs import (
    curve,
    events,
    is_training,
    logs,
    spec,
    train,
    wait_for,
    wait_for_end,
    wait_for_event,
    wait_until_gone,
)

PROBE = {"torch": "probe_torch", "keras": "probe_keras"}
REFERENCE = {"torch": "torch/single", "tf": "tf/single"}
LONG = 10_000
"""Epochs of a run that only ends when told to."""


def devices_for(strategy: Strategy) -> int:
    """Two CPU devices where the strategy takes them, else one."""
    return 1 if strategy.problems(("cpu:0", "cpu:1")) else 2


def recipe_for(strategy: Strategy) -> str:
    return PROBE[min(strategy.recipe_frameworks)]


class Trained(NamedTuple):
    """A finished run."""

    info: RunInfo
    losses: list[float]
    validation: dict[str, float]


class TrainedRuns:
    """Trains the probe with each strategy once, however many tests look at it."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._done: dict[str, Trained] = {}

    def __getitem__(self, name: str) -> Trained:
        if name not in self._done:
            strategy = catalog.strategy(name)
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("TRAINDECK_HOME", str(self._home))
                info = train(spec(recipe_for(strategy), name, devices_for(strategy), epochs=5))
                steps, losses = curve(info, "train/loss")
            assert info.state is RunState.FINISHED, f"{info.reason}\n{logs(info)}"
            assert steps == list(range(1, 21))
            validation = {
                key: value
                for key, value in info.status.metrics.items()
                if key.startswith("validation/")
            }
            self._done[name] = Trained(info, losses, validation)
        return self._done[name]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> TrainedRuns:
    return TrainedRuns(tmp_path_factory.mktemp("contract"))


@pytest.fixture(params=catalog.strategies(), ids=lambda strategy: strategy.name)
def strategy(request: pytest.FixtureRequest) -> Strategy:
    found: Strategy = request.param
    return found


@pytest.fixture
def run_id(strategy: Strategy) -> Iterator[str]:
    """A long run that trains; ended afterwards whatever the test did."""
    started = client.start(
        spec(recipe_for(strategy), strategy.name, devices_for(strategy), epochs=LONG)
    )
    try:
        wait_for(started, is_training)
        yield started
    finally:
        if not client.look(started).state.is_over:
            client.send(started, Stop(now=True))
            wait_for_end(started)


def test_the_loss_falls(strategy: Strategy, trained: TrainedRuns) -> None:
    losses = trained[strategy.name].losses
    assert sum(losses[-4:]) < 0.8 * sum(losses[:4])


def test_replicas_at_one_global_batch_train_like_one_device(
    strategy: Strategy, trained: TrainedRuns
) -> None:
    """Also in the last batch of an epoch, which has one sample: one replica has none."""
    ours, reference = trained[strategy.name], trained[REFERENCE[strategy.framework]]
    assert ours.losses == pytest.approx(reference.losses, abs=1e-5)
    assert ours.validation.keys() == reference.validation.keys()
    for name, value in ours.validation.items():
        assert value == pytest.approx(reference.validation[name], abs=1e-5), name


def test_it_says_what_it_is(strategy: Strategy) -> None:
    assert strategy.framework in REFERENCE
    assert strategy.short_name
    assert strategy.title
    assert strategy.summary.endswith(".")
    assert strategy.needs
    assert strategy.recipe_frameworks
    ranks = [plan.rank for plan in strategy.pool(("cpu:0", "cpu:1"))]
    assert ranks == list(range(len(ranks)))


def test_commands_are_honoured_and_a_stopped_run_resumes(strategy: Strategy, run_id: str) -> None:
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

    client.resume(run_id)
    wait_for(run_id, lambda info: info.status.step > stopped.status.step + 2)
    client.send(run_id, Stop())
    resumed = wait_for_end(run_id)
    steps, _ = curve(resumed, "train/loss")
    assert steps == list(range(1, resumed.status.step + 1)), "the curve has a gap or a double"
    assert len([e for e in events(resumed) if isinstance(e, RunEnded)]) == 2
