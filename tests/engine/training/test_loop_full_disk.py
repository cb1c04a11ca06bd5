"""Checkpoints on a full disk: no part of them is left, and the training goes on."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.messages.commands import Resume, Stop
from engine.messages.events import (
    CheckpointFailed,
    CheckpointSaved,
    Event,
    Paused,
    Resumed,
    TrainingEnded,
)
from engine.runs.checkpoints.checkpoint_files import Position
from engine.training.loop import Loop
from tests.support.loop_doubles import (
    EPOCHS,
    SECONDS,
    STEPS,
    CountingTrainer,
    RecordingSession,
    ThreadedRanks,
    Training,
)
from tests.support.sentences import sentence

LAST = STEPS * EPOCHS


def fail(trainer: CountingTrainer, times: int, number: int = errno.ENOSPC) -> None:
    """Let the next `times` saves meet a full disk."""
    save: Callable[[Path], None] = trainer.save
    left = [number] * times

    def failing(folder: Path) -> None:
        save(folder)
        if left:
            raise OSError(left.pop(), "no")

    trainer.save = failing  # type: ignore[method-assign]


def kinds_of(events: list[Event]) -> list[str]:
    return [type(event).__name__ for event in events]


CHECKPOINTS = (CheckpointFailed, CheckpointSaved, Paused, Resumed, TrainingEnded)


def test_a_full_disk_pauses_the_training_until_it_is_resumed(training: Training) -> None:
    training.change_spec(checkpoint_steps=3)
    training.session.answers[Paused] = [Resume()]
    fail(training.trainer, 2)
    training.run()
    once = ["CheckpointFailed", "Paused", "Resumed"]
    sent = training.emitted(*CHECKPOINTS)
    assert kinds_of(sent)[:7] == [*once, *once, "CheckpointSaved"]
    assert isinstance(sent[0], CheckpointFailed)
    assert sent[0].text.startswith(sentence("checkpoint-could-not-be-saved"))
    assert training.kinds() == {3: ("steps",), 6: ("steps",), 8: ("last",)}
    assert not list(training.session.folder.rglob("*.tmp"))


def test_a_full_disk_stops_the_training_if_the_spec_says_so(training: Training) -> None:
    training.change_spec(checkpoint_steps=3, on_disk_full="stop")
    fail(training.trainer, 9)
    training.run()
    assert training.emitted(*CHECKPOINTS)[-1] == TrainingEnded(3, completed=False)
    assert not training.emitted(Paused)
    assert training.saved() == []
    assert not list(training.session.folder.rglob("step-*"))


def test_the_last_checkpoint_waits_until_the_disk_has_room(training: Training) -> None:
    training.session.answers[Paused] = [Resume()]
    fail(training.trainer, 1)
    training.run()
    assert training.kinds() == {LAST: ("last",)}
    assert training.emitted(*CHECKPOINTS)[-1] == TrainingEnded(LAST, completed=True)


def test_a_stop_on_a_full_disk_ends_without_a_checkpoint(training: Training) -> None:
    training.session.answers[Paused] = [Stop()]
    fail(training.trainer, 9)
    training.run()
    assert training.saved() == []
    assert training.emitted(TrainingEnded) == [TrainingEnded(LAST, completed=True)]


def test_an_error_that_is_not_the_disks_ends_the_training(training: Training) -> None:
    fail(training.trainer, 1, errno.ENOENT)
    with pytest.raises(FileNotFoundError):
        training.run()


@pytest.mark.parametrize("unlucky", [0, 1])
def test_all_ranks_pause_when_one_cannot_write(tmp_path: Path, unlucky: int) -> None:
    peers = ThreadedRanks(2)
    trainers = [CountingTrainer(peers, rank, replicas=2) for rank in range(2)]
    sessions = [RecordingSession(tmp_path, rank) for rank in range(2)]
    sessions[0].answers[Paused] = [Resume()]
    fail(trainers[unlucky], 1)
    threads = [
        threading.Thread(target=Loop(trainer, session, Position()).run, daemon=True)
        for trainer, session in zip(trainers, sessions, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
        assert not thread.is_alive()
    [failed] = [event for event in sessions[0].emitted if isinstance(event, CheckpointFailed)]
    reason = "No space left on device" if unlucky == 0 else "another rank could not write its part"
    assert reason in failed.text
    assert sum(isinstance(event, CheckpointSaved) for event in sessions[0].emitted) == 1
    assert not any(isinstance(event, CheckpointFailed) for event in sessions[1].emitted)
