"""A pause that frees the devices: the test's trainer refuses to work without its devices."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

import pytest

from engine.messages.commands import Command, EmptyCache, Pause, Resume, SaveCheckpoint, Stop
from engine.messages.events import (
    CacheEmptied,
    CheckpointFailed,
    CheckpointSaved,
    Notice,
    Paused,
    Resumed,
    TrainingEnded,
)
from engine.training.errors import DevicesFull
from engine.training.loop import Loop
from tests.support.loop_doubles import (
    FIRST,
    IN_VALIDATION,
    SECONDS,
    CountingTrainer,
    Moment,
    Position,
    RecordingSession,
    ThreadedRanks,
    Training,
    every_batch,
)

FREE = Pause(free_devices=True)


@pytest.mark.parametrize(("moment", "step"), [(FIRST, 1), (IN_VALIDATION, 4)])
def test_a_pause_frees_the_devices_and_restores_them(
    moment: Moment, step: int, training: Training
) -> None:
    training.post(moment, FREE)
    training.session.answers[Paused] = [Resume()]
    training.run()
    assert training.emitted(Paused, Resumed) == [Paused(step, freed_devices=True), Resumed(step)]
    assert training.trainer.moves == ["freed", "restored"]
    assert training.trainer.done == every_batch()


def test_a_checkpoint_needs_the_model_only_for_a_moment(training: Training) -> None:
    training.post(FIRST, FREE)
    training.session.answers[Paused] = [SaveCheckpoint()]
    training.session.answers[CheckpointSaved] = [EmptyCache()]
    training.session.answers[CacheEmptied] = [Resume()]
    training.run()
    assert training.trainer.moves == ["freed", "restored", "freed", "restored"]
    assert training.emitted(Paused) == [Paused(1, freed_devices=True)]
    assert training.kinds() == {1: ("request",), 8: ("last",)}


@pytest.mark.parametrize("commands", [[Stop()], [SaveCheckpoint(), Stop()], [Stop(), Resume()]])
def test_a_stop_restores_the_devices_and_saves(commands: list[Command], training: Training) -> None:
    training.post(FIRST, FREE)
    training.session.answers[Paused] = commands
    training.run()
    assert training.trainer.moves == ["freed", "restored"]
    assert training.emitted(Resumed) == []
    assert training.emitted(TrainingEnded) == [TrainingEnded(1, completed=False)]
    assert [position.step for position in training.saved()] == [1]


def test_the_devices_can_be_freed_later_in_a_pause(training: Training) -> None:
    training.post(FIRST, Pause())
    answers: list[list[Command]] = [[FREE], [Resume()]]
    emit = training.session.emit

    def answer(event: object) -> None:
        emit(event)  # type: ignore[arg-type]
        if isinstance(event, Paused):
            for command in answers.pop(0):
                training.session.mailbox.post(command)

    training.session.emit = answer  # type: ignore[method-assign]
    training.run()
    assert training.emitted(Paused) == [Paused(1), Paused(1, freed_devices=True)]
    assert training.trainer.moves == ["freed", "restored"]


def test_all_ranks_free_their_devices(tmp_path: Path) -> None:
    peers = ThreadedRanks(2)
    trainers = [CountingTrainer(peers, rank, replicas=2) for rank in range(2)]
    sessions = [RecordingSession(tmp_path, rank) for rank in range(2)]
    sessions[0].mailbox.post(FREE)
    # What frees the devices saves a checkpoint before: that is not the one that is asked for here.
    sessions[0].answers = {Paused: [SaveCheckpoint(), EmptyCache()], CacheEmptied: [Resume()]}
    other = threading.Thread(target=Loop(trainers[1], sessions[1], Position()).run)
    other.start()
    Loop(trainers[0], sessions[0], Position()).run()
    other.join(SECONDS)
    assert not other.is_alive()
    for trainer in trainers:
        assert trainer.moves == ["freed", "restored", "freed", "restored"]


def fill_devices(training: Training, times: int) -> None:
    """Let the devices have no room for the model, the first `times` that it comes back."""
    trainer, restore = training.trainer, training.trainer.restore_devices
    left = [DevicesFull("GPU-a has no room for it now.")] * times

    def restore_if_there_is_room() -> None:
        if left:
            trainer.moves.append("full")
            raise left.pop()
        restore()

    trainer.restore_devices = restore_if_there_is_room  # type: ignore[method-assign]


def test_what_is_on_the_devices_is_saved_before_they_are_freed(training: Training) -> None:
    training.post(FIRST, FREE)
    training.session.answers[Paused] = [Resume()]
    training.run()
    first, then = training.emitted(CheckpointSaved, Paused)[:2]
    assert isinstance(first, CheckpointSaved)
    assert (first.step, then) == (1, Paused(1, freed_devices=True))


def test_what_cannot_be_saved_stays_on_its_devices(
    training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    def save(folder: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    write = training.trainer.save
    monkeypatch.setattr(training.trainer, "save", save)
    training.post(FIRST, FREE)

    def room(event: object) -> None:
        if isinstance(event, Paused):
            monkeypatch.setattr(training.trainer, "save", write)
            training.session.mailbox.post(Resume())
        emit(event)  # type: ignore[arg-type]

    emit, training.session.emit = training.session.emit, room  # type: ignore[method-assign]
    training.run()
    assert len(training.emitted(CheckpointFailed)) == 1
    assert training.emitted(Paused) == [Paused(1)]
    assert training.trainer.moves == []
    assert training.trainer.done == every_batch()


def test_a_run_stays_paused_where_its_devices_are_full_and_can_be_resumed_later(
    training: Training,
) -> None:
    fill_devices(training, times=2)
    training.post(FIRST, FREE)
    training.session.answers[Paused] = [Resume()]
    training.run()
    assert training.trainer.moves == ["freed", "full", "full", "restored"]
    assert training.emitted(Paused, Resumed, Notice) == [
        Paused(1, freed_devices=True),
        *[Notice("GPU-a has no room for it now.", 0), Paused(1, freed_devices=True)] * 2,
        Resumed(1),
    ]
    assert training.trainer.done == every_batch()


@pytest.mark.parametrize("commands", [[Stop()], [SaveCheckpoint(), Stop()]])
def test_a_run_whose_devices_are_full_stops_with_the_checkpoint_that_it_has(
    training: Training, commands: list[Command]
) -> None:
    fill_devices(training, times=9)
    training.post(FIRST, FREE)
    training.session.answers[Paused] = commands
    training.run()
    assert "restored" not in training.trainer.moves
    assert training.emitted(TrainingEnded) == [TrainingEnded(1, completed=False)]
    assert training.kinds() == {1: ("request", "last")}
