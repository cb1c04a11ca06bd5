"""Commands at any moment of a real training on two ranks: no deadlock, all ranks at one step."""

from __future__ import annotations

import random
import threading

import pytest

from engine import client
from engine.messages.commands import Command, EmptyCache, Pause, Resume, SaveCheckpoint, Stop
from engine.messages.events import CacheEmptied, CheckpointSaved, Paused, Resumed
from engine.runs.run_state import RunState
from tests.support.runs import (
    curve,
    events,
    is_training,
    spec,
    wait_for,
    wait_for_end,
    wait_for_event,
)

pytestmark = pytest.mark.usefixtures("processes")

COMMANDS = 100


@pytest.mark.nightly
def test_a_hundred_commands_at_random_moments() -> None:
    """An epoch takes some 20 ms: last steps of epochs and validations are hit many times."""
    rng = random.Random(3)
    run_id = client.start(spec("probe_torch", "torch/ddp", 2, epochs=1_000_000))
    wait_for(run_id, is_training)
    paused = False
    moment = threading.Event()
    for _ in range(COMMANDS):
        moment.wait(rng.uniform(0, 0.05))  # any moment will do: that is what is tried out
        command: Command = rng.choice(
            [SaveCheckpoint(), EmptyCache(), Resume() if paused else Pause()]
        )
        seq = client.send(run_id, command)
        match command:  # the others are answered some time, maybe several of them at once
            case Pause():
                wait_for_event(run_id, Paused, seq)
                paused = True
            case Resume():
                wait_for_event(run_id, Resumed, seq)
                paused = False
    client.send(run_id, Stop())
    ended = wait_for_end(run_id)
    assert ended.state is RunState.STOPPED, ended.reason
    assert curve(ended, "train/loss")[0] == list(range(1, ended.status.step + 1))
    said = events(ended)
    saved = {event.step for event in said if isinstance(event, CheckpointSaved)}
    assert len(saved) > 5
    assert {event.rank for event in said if isinstance(event, CacheEmptied)} == {0, 1}
    held, went_on = (
        [event.step for event in said if isinstance(event, kind)] for kind in (Paused, Resumed)
    )
    assert went_on == held[: len(went_on)], "a training that is held does no step"
