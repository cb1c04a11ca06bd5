"""A run that fails is restarted automatically, as often as allowed, if that can help."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from engine import client
from engine.messages.commands import Stop
from engine.messages.events import AttemptStarted, Restarting, Rewound, RunEnded
from engine.runs.run_state import RunState
from tests.support.runs import (
    curve,
    events,
    failure_of,
    is_training,
    spec,
    train,
    wait_for,
    wait_for_end,
    wait_until_gone,
)

pytestmark = pytest.mark.usefixtures("processes")

FAILS = """
import os, sys
import torch
from pathlib import Path

steps = 0

def model():
    return torch.nn.Linear(4, 1)

def datasets():
    return ((torch.ones(640, 4), torch.ones(640, 1)),) * 2

def loss(outputs, targets):
    global steps
    steps += torch.is_grad_enabled()
    if steps == 15:
        raise ValueError("no more")
    return ((outputs - targets) ** 2).mean()
"""


@pytest.mark.skipif(os.name != "posix", reason="it kills with SIGKILL")
def test_a_killed_run_continues_from_its_last_checkpoint_with_one_curve() -> None:
    run_id = client.start(
        spec("slow_phases", "torch/single", epochs=1_000_000, max_restarts=2, checkpoint_steps=10)
    )
    before = wait_for(run_id, lambda info: info.status.checkpoint_step >= 20)
    killed = time.monotonic()
    os.kill(before.status.worker_pids[0], signal.SIGKILL)
    again = wait_for(run_id, lambda info: info.status.attempt == 2 and is_training(info))
    assert curve(again, "train/loss")[0][: again.status.step] == list(
        range(1, again.status.step + 1)
    )
    seconds = time.monotonic() - killed
    print(f"killed, and at work again from the checkpoint: {seconds:.2f} s")
    assert again.status.supervisor_pid == before.status.supervisor_pid

    far_from_there = before.status.step + 100  # at the same step it would count as the same failure
    again = wait_for(run_id, lambda info: info.status.step > far_from_there)
    os.kill(again.status.worker_pids[0], signal.SIGKILL)
    wait_for(run_id, lambda info: info.status.attempt == 3)
    client.send(run_id, Stop())  # a run that is restarting can be stopped
    info = wait_for_end(run_id)
    assert info.state is RunState.STOPPED
    wait_until_gone(info)
    restarts = [event for event in events(info) if isinstance(event, Restarting)]
    assert [(event.number, event.most) for event in restarts] == [(1, 2), (2, 2)]
    assert {event.failure.signal for event in restarts} == {"SIGKILL"}
    rewound = next(event for event in events(info) if isinstance(event, Rewound))
    assert rewound.step >= 20
    assert rewound.checkpoint == f"step-{rewound.step:08d}"
    order = [
        type(event).__name__
        for event in events(info)
        if isinstance(event, AttemptStarted | Restarting | RunEnded)
    ]
    again_and_again = ["Restarting", "AttemptStarted"] * 2
    assert order == ["AttemptStarted", *again_and_again, "RunEnded"]


@pytest.mark.skipif(os.name != "posix", reason="it kills with SIGKILL")
def test_either_of_two_ranks_is_killed_and_both_train_again() -> None:
    run_id = client.start(
        spec("slow_phases", "torch/ddp", 2, epochs=1_000_000, max_restarts=3, checkpoint_steps=10)
    )
    step, killed_ranks = 0, (1, 0, 1)
    for attempt, rank in enumerate(killed_ranks, 1):
        info = wait_for(run_id, lambda info: info.status.step > step + 100)  # noqa: B023
        step = info.status.step  # at the same step it would count as the same failure
        killed = time.monotonic()
        os.kill(info.status.worker_pids[rank], signal.SIGKILL)
        wait_for(run_id, lambda info: info.status.attempt > attempt and is_training(info))  # noqa: B023
        seconds = time.monotonic() - killed
        print(f"rank {rank} of 2 killed, and both at work again: {seconds:.2f} s")
    client.send(run_id, Stop())
    info = wait_for_end(run_id)
    assert info.state is RunState.STOPPED
    wait_until_gone(info)
    failures = [event.failure for event in events(info) if isinstance(event, Restarting)]
    assert [failure.rank for failure in failures] == list(killed_ranks)
    assert {failure.signal for failure in failures} == {"SIGKILL"}
    assert curve(info, "train/loss")[0] == list(range(1, info.status.step + 1))


def test_a_failure_at_the_same_step_is_not_restarted_again(tmp_path: Path) -> None:
    """Without a checkpoint it starts at step 0; the second failure shows that this is no help.

    Its workers are not forked, neither the first nor that of the restart.
    """
    path = tmp_path / "fails.py"
    path.write_text(FAILS)
    info = train(spec(str(path), "torch/single", epochs=100, max_restarts=5, cold_start=True))
    failure = failure_of(info)
    assert "no more" in failure.message
    assert "It fails every time after step " in info.reason
    happened = events(info)
    assert sum(isinstance(event, Restarting) for event in happened) == 1
    assert [e for e in happened if isinstance(e, Rewound)] == [Rewound(0, "")]
