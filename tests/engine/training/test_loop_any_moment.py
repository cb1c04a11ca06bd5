"""Commands at any moment on two ranks in threads: no deadlock, and both act at the same step."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engine.messages.commands import Command, EmptyCache, Pause, Resume, SaveCheckpoint, Stop
from engine.messages.events import Resumed
from engine.runs.checkpoints.checkpoint_files import Position
from engine.training import pace, step_boundary
from engine.training.loop import Loop
from tests.support.loop_doubles import (
    SECONDS,
    STEPS,
    CountingTrainer,
    Moment,
    RecordingSession,
    ThreadedRanks,
)

COMMANDS = 100
BATCH_SECONDS = 0.0002


class Rank:
    """One rank, with a note of what it did and between which batches."""

    def __init__(self, folder: Path, peers: ThreadedRanks, rank: int) -> None:
        self.trainer = CountingTrainer(peers, rank, replicas=2)
        self.session = RecordingSession(folder, rank)
        self.session.spec = msgspec.structs.replace(
            self.session.spec,
            epochs=1_000_000,
            checkpoint_steps=50,
            checkpoint_epochs=20,
            checkpoint_best="loss",
        )
        self.acts: list[tuple[str, int, Moment | None]] = []
        self.trainer.after = lambda moment: time.sleep(BATCH_SECONDS)
        for name in ("save", "empty_cache", "free_devices", "restore_devices"):
            setattr(self.trainer, name, self._noted(name))
        self.thread = threading.Thread(
            target=Loop(self.trainer, self.session, Position()).run, daemon=True
        )

    def _noted(self, name: str) -> Callable[..., Any]:
        act = getattr(self.trainer, name)

        def noted(*arguments: Any) -> Any:
            done = self.trainer.done
            self.acts.append((name, len(done), done[-1] if done else None))
            return act(*arguments)

        return noted


@pytest.mark.parametrize("seed", [1, 2])
def test_a_hundred_commands_at_random_moments(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_boundary, "PAUSED_WAIT_SECONDS", 0.001)
    monkeypatch.setattr(pace, "MOST_STEPS", 1)
    chance = random.Random(seed)
    peers = ThreadedRanks(2)
    ranks = [Rank(tmp_path, peers, rank) for rank in range(2)]
    first, second = ranks
    at_the_edges = {("train", STEPS - 1), ("validate", 0)}  # the end of an epoch, and a validation
    for rank in ranks:
        rank.thread.start()
    moment = threading.Event()
    for number in range(20 * COMMANDS):
        if number >= COMMANDS and at_the_edges <= moments_of(first):
            break  # few are hit where the machine takes several commands at once
        moment.wait(chance.uniform(0, 0.005))
        command: Command = chance.choice(
            [SaveCheckpoint(), EmptyCache(), Pause(), Pause(free_devices=True), Resume()]
        )
        first.session.mailbox.post(command)
        if isinstance(command, Pause):
            first.session.mailbox.post(chance.choice([Resume(), SaveCheckpoint()]))
            moment.wait(chance.uniform(0, 0.003))
            first.session.mailbox.post(Resume())
    first.session.mailbox.post(Stop())
    for rank in ranks:
        rank.thread.join(SECONDS)
        assert not rank.thread.is_alive()

    assert first.trainer.done == second.trainer.done
    assert first.acts == second.acts
    assert len(first.acts) > COMMANDS / 4, "some came together"
    assert at_the_edges <= moments_of(first)
    assert any(isinstance(event, Resumed) for event in first.session.emitted)


def moments_of(rank: Rank) -> set[tuple[str, int]]:
    """Between which batches of an epoch `rank` has done what was asked."""
    return {act[2][0::2] for act in list(rank.acts) if act[2]}
