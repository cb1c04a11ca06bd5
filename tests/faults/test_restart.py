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
from tests.support.sentences import sentence

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


@pytest.mark.nightly
def test_a_failure_at_the_same_step_is_not_restarted_again(tmp_path: Path) -> None:
    """Without a checkpoint it starts at step 0; the second failure shows that this is no help.

    Its workers are not forked, neither the first nor that of the restart.
    """
    path = tmp_path / "fails.py"
    path.write_text(FAILS)
    info = train(spec(str(path), "torch/single", epochs=100, max_restarts=5, cold_start=True))
    failure = failure_of(info)
    assert "no more" in failure.message
    assert sentence("it-fails-every-time-after-step") in info.reason
    happened = events(info)
    assert sum(isinstance(event, Restarting) for event in happened) == 1
    assert [e for e in happened if isinstance(e, Rewound)] == [Rewound(0, "")]
