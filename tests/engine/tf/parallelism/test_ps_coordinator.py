"""Parameter servers in real runs: a coordinator, workers and a server, each a rank of the pool."""

from __future__ import annotations

import os
import signal

import pytest

from engine import client
from engine.messages.events import Failure, RunEnded, WorkerReady, WorkerStarted
from engine.runs.run_state import RunState
from engine.spec import catalog
from engine.spec.strategy import WorkerPlan
from engine.tf.strategies.parameter_server import strategy
from tests.support.contract import DEMANDING, LONG, assert_alike, probe
from tests.support.runs import (
    events,
    is_training,
    logs,
    train,
    wait_for,
    wait_for_end,
    wait_until_gone,
)
from tests.support.sentences import sentence
from tests.support.trained_runs import trained

OF_A_PAIR = {"coordinator": 0, "worker": 2, "parameter server": 3}
"""A rank of each kind when there are two workers."""


def test_every_process_is_a_rank_and_only_workers_have_devices() -> None:
    assert strategy.pool(("a", "b", "c")) == (
        WorkerPlan(0, (), "coordinator"),
        WorkerPlan(1, ("a",), "worker"),
        WorkerPlan(2, ("b",), "worker"),
        WorkerPlan(3, ("c",), "worker"),
        WorkerPlan(4, (), "parameter server"),
        WorkerPlan(5, (), "parameter server"),
    )
    assert list(strategy.tasks(("a", "b", "c")).values()) == [
        ("worker", 0),
        ("worker", 1),
        ("worker", 2),
        ("ps", 0),
        ("ps", 1),
    ]


def test_it_says_that_it_is_asynchronous() -> None:
    assert not strategy.is_synchronous
    assert "async" in strategy.title
    assert "asynchronous" in strategy.summary


@pytest.mark.usefixtures("processes")
@pytest.mark.nightly
def test_one_worker_trains_like_one_device() -> None:
    """Also when each batch is computed in parts, by processes that were not forked."""
    ours = train(probe(strategy, devices=1, accumulation=3, cold_start=True, **DEMANDING))
    assert ours.state is RunState.FINISHED, logs(ours)
    theirs = trained(probe(catalog.strategy("tf/single"), devices=1, **DEMANDING))
    assert_alike(ours, theirs, ("train/loss", "train/learning_rate", "train/gradient_norm"))
    wait_until_gone(ours)


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    ("role", "number", "said"),
    [
        pytest.param(
            "parameter server",
            signal.SIGKILL,
            sentence("rank-parameter-server-was-ended"),
            marks=pytest.mark.nightly,
        ),
        ("worker", signal.SIGSTOP, sentence("rank-of-worker-has-not-answered")),
    ],
)
def test_a_rank_that_is_lost_ends_the_run_and_is_named(
    role: str, number: signal.Signals, said: str
) -> None:
    """TensorFlow's coordinator waits for ever when a worker is stopped, or the last one dies."""
    run_id = client.start(probe(strategy, devices=2, epochs=LONG))
    wait_for(run_id, is_training)
    # The coordinator already trains with one worker while another one is not ready yet.
    info = wait_for(run_id, lambda info: ready(info) == {0, 1, 2, 3})
    pids = {event.rank: event.pid for event in events(info) if isinstance(event, WorkerStarted)}
    os.kill(pids[OF_A_PAIR[role]], number)
    ended = wait_for_end(run_id)
    failure = failure_of(ended)
    assert failure.rank == OF_A_PAIR[role]
    assert failure.message.startswith(said)
    wait_until_gone(ended)


def ready(info: client.RunInfo) -> set[int]:
    """The ranks that are ready: from then on their silence is noticed."""
    return {event.rank for event in events(info) if isinstance(event, WorkerReady)}


def failure_of(info: client.RunInfo) -> Failure:
    """The failure of the one terminal event."""
    assert info.state is RunState.FAILED, info.reason
    (ended,) = [event for event in events(info) if isinstance(event, RunEnded)]
    assert ended.failure is not None
    return ended.failure
