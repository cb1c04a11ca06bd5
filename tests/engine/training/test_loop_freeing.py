"""A pause that frees the devices: the test's trainer refuses to work without its devices."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from engine.messages.commands import Command, EmptyCache, Pause, Resume, SaveCheckpoint, Stop
from engine.messages.events import CacheEmptied, CheckpointSaved, Paused, Resumed, TrainingEnded
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
    sessions[0].answers = {Paused: [SaveCheckpoint()], CheckpointSaved: [Resume()]}
    other = threading.Thread(target=Loop(trainers[1], sessions[1], Position()).run)
    other.start()
    Loop(trainers[0], sessions[0], Position()).run()
    other.join(SECONDS)
    assert not other.is_alive()
    for trainer in trainers:
        assert trainer.moves == ["freed", "restored", "freed", "restored"]
