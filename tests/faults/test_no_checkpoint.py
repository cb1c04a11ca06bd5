"""A run that is killed before its first checkpoint is not lost: it starts again."""

from __future__ import annotations

import os
import signal

import pytest
from msgspec.structs import replace

from engine import client
from engine.messages.commands import Stop
from engine.messages.events import AttemptStarted, Queued, Rewound
from engine.runs import run_info
from engine.runs.run_info import RunInfo
from engine.runs.run_state import RunState
from tests.support.runs import (
    curve,
    events,
    is_training,
    spec,
    wait_for,
    wait_for_end,
    wait_until_gone,
)

pytestmark = pytest.mark.usefixtures("processes")


def kill_all(info: RunInfo) -> RunInfo:
    """Kill the supervisor and its workers at the same moment, so that none of them saves."""
    pids = [info.status.supervisor_pid, *info.status.worker_pids]
    for each in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            os.kill(pid, each)
    wait_until_gone(info)
    return wait_for_end(info.id)


def assert_trained_once(info: RunInfo) -> None:
    steps = info.status.total_steps
    assert (info.state, info.status.step) == (RunState.FINISHED, steps)
    assert curve(info, "train/loss")[0] == list(range(1, steps + 1))
    wait_until_gone(info)


@pytest.mark.nightly
def test_a_run_whose_supervisor_is_killed_in_the_queue_queues_again() -> None:
    holder = client.start(spec("probe_torch", "torch/single", epochs=1_000_000, queue="always"))
    queued = client.start(spec("probe_torch", "torch/single", queue="always"))
    info = wait_for(queued, lambda info: info.state is RunState.QUEUED)
    assert kill_all(info).state is RunState.INTERRUPTED
    assert client.resume(queued) == "beginning"
    wait_for(queued, lambda info: info.state is RunState.QUEUED and info.status.attempt == 2)
    wait_for(holder, is_training)
    client.send(holder, Stop(now=True))
    ended = wait_for_end(queued)
    assert_trained_once(ended)
    kinds = (AttemptStarted, Queued, Rewound)
    told = [type(event) for event in events(ended) if isinstance(event, kinds)]
    assert told == [AttemptStarted, Queued, AttemptStarted, Queued, Queued, Rewound]
    wait_until_gone(wait_for_end(holder))


def test_a_run_that_is_killed_before_its_first_checkpoint_trains_every_step_once() -> None:
    wanted = spec("probe_torch", "torch/single", epochs=1_000_000)
    run_id = client.start(wanted)
    info = kill_all(wait_for(run_id, lambda info: is_training(info) and info.status.step > 3))
    assert (info.state, info.status.checkpoint) == (RunState.INTERRUPTED, "")
    assert curve(info, "train/loss")[0][:3] == [1, 2, 3]
    assert client.resume(run_id, spec=replace(wanted, epochs=2)) == "beginning"
    ended = wait_for_end(run_id)
    assert_trained_once(ended)
    [rewound] = [event for event in events(ended) if isinstance(event, Rewound)]
    assert (rewound.step, rewound.checkpoint) == (0, "")


@pytest.mark.nightly
def test_a_run_that_was_killed_before_it_had_a_store_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wanted = spec("probe_torch", "torch/single", epochs=1_000_000)
    info = wait_for(client.start(wanted), is_training)
    kill_all(info)
    for file in info.folder.glob("run.sqlite*"):
        file.unlink()
    monkeypatch.setattr(run_info, "LONGEST_START", -1.0)  # a new run may have no store yet
    assert client.get_run(info.id).state is RunState.INTERRUPTED
    assert client.resume(info.id, None, replace(wanted, epochs=2)) == "beginning"
    assert_trained_once(wait_for_end(info.id))
