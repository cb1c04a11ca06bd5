"""Commands take effect at the next step boundary, in training and in validation."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from engine.messages.commands import EmptyCache, Pause, Resume, SaveCheckpoint, Stop
from engine.messages.events import (
    CacheEmptied,
    CheckpointSaved,
    EpochEnded,
    Event,
    Metrics,
    Paused,
    Resumed,
    TrainingEnded,
)
from engine.runs.checkpoints import checkpoint_files
from engine.runs.checkpoints.checkpoint_files import Position
from engine.training import pace
from engine.training.loop import Loop
from tests.support.loop_doubles import (
    FIRST,
    IN_VALIDATION,
    LAST_OF_EPOCH,
    SECONDS,
    STEPS,
    VALIDATIONS,
    CountingTrainer,
    Moment,
    RecordingSession,
    ThreadedRanks,
    Training,
    every_batch,
)

BOUNDARIES = pytest.mark.parametrize(
    ("moment", "step"),
    [(FIRST, 1), (LAST_OF_EPOCH, STEPS), (IN_VALIDATION, STEPS)],
    ids=["after the first step", "after the last step of an epoch", "during validation"],
)


@BOUNDARIES
def test_a_checkpoint_is_saved_at_the_next_boundary(
    moment: Moment, step: int, training: Training
) -> None:
    training.post(moment, SaveCheckpoint())
    training.run()
    first, last = training.emitted(CheckpointSaved)
    [info, _] = checkpoint_files.checkpoints(training.session.folder)
    assert isinstance(first, CheckpointSaved)
    assert (first.path, first.step, first.epoch) == (str(info.folder), step, 0)
    assert first.bytes == info.manifest.bytes
    assert info.manifest.position == Position(epoch=0, batch=step, step=step)
    assert (info.folder / "rank0").read_text().endswith(f"{moment!r}]"), "saved right then"
    assert isinstance(last, CheckpointSaved)
    assert last.step == 8
    assert training.trainer.done == every_batch()


def test_a_second_checkpoint_of_the_same_step_is_answered_with_the_first(
    training: Training,
) -> None:
    training.post(IN_VALIDATION, SaveCheckpoint())
    training.session.answers[CheckpointSaved] = [Pause()]
    training.session.answers[Paused] = [SaveCheckpoint(), Stop()]
    training.run()
    first, second = training.emitted(CheckpointSaved)
    assert isinstance(first, CheckpointSaved)
    assert isinstance(second, CheckpointSaved)
    assert (second.path, second.step, second.seconds) == (first.path, first.step, 0)
    assert training.kinds() == {STEPS: ("request", "last")}


@BOUNDARIES
def test_a_pause_holds_at_the_next_boundary_until_resumed(
    moment: Moment, step: int, training: Training
) -> None:
    seen: list[Moment] = []
    training.post(moment, Pause())
    training.session.answers[Paused] = [Resume()]
    emit = training.session.emit

    def note(event: Event) -> None:
        if isinstance(event, Paused | Resumed):
            seen.append(training.trainer.done[-1])
        emit(event)

    training.session.emit = note  # type: ignore[method-assign]
    training.run()
    assert training.emitted(Paused, Resumed) == [Paused(step), Resumed(step)]
    assert seen == [moment, moment], "nothing was trained while it held"
    assert training.trainer.done == every_batch()


def test_a_pause_that_is_resumed_before_the_boundary_is_short(training: Training) -> None:
    training.post(FIRST, Pause(), Resume())
    training.run()
    assert training.emitted(Paused, Resumed) == [Paused(1), Resumed(1)]


def test_commands_work_while_paused(training: Training) -> None:
    training.post(FIRST, Pause())
    training.session.answers[Paused] = [SaveCheckpoint()]
    training.session.answers[CheckpointSaved] = [EmptyCache()]
    training.session.answers[CacheEmptied] = [Resume()]
    training.run()
    kinds = [type(e) for e in training.emitted(Paused, Resumed, CheckpointSaved, CacheEmptied)]
    assert kinds[:4] == [Paused, CheckpointSaved, CacheEmptied, Resumed]
    assert training.saved()[0] == Position(epoch=0, batch=1, step=1)


@BOUNDARIES
def test_a_stop_ends_at_the_next_boundary_with_a_checkpoint(
    moment: Moment, step: int, training: Training
) -> None:
    training.post(moment, Stop())
    sent = training.run()
    assert training.trainer.done[-1] == moment
    assert training.saved() == [Position(epoch=0, batch=step, step=step)]
    assert sent[-1] == TrainingEnded(step=step, completed=False)
    assert training.emitted(EpochEnded) == []


def test_a_stop_ends_a_pause(training: Training) -> None:
    training.post(FIRST, Pause())
    training.session.answers[Paused] = [Stop()]
    training.run()
    assert training.emitted(Paused, Resumed) == [Paused(1)]
    assert training.emitted(TrainingEnded) == [TrainingEnded(step=1, completed=False)]


def test_a_stop_comes_before_a_pause(training: Training) -> None:
    training.post(FIRST, Pause(), Stop())
    training.run()
    assert training.emitted(Paused) == []
    assert training.emitted(TrainingEnded) == [TrainingEnded(step=1, completed=False)]


def test_a_stop_before_the_first_step_trains_nothing(training: Training) -> None:
    training.session.mailbox.post(Stop())
    training.run()
    assert training.trainer.done == []
    assert training.saved() == [Position()]


@BOUNDARIES
def test_the_cache_is_emptied_at_the_next_boundary(
    moment: Moment, step: int, training: Training
) -> None:
    training.post(moment, EmptyCache())
    training.run()
    assert training.emitted(CacheEmptied) == [CacheEmptied(0, "cpu:0", 4096)]
    assert training.trainer.done == every_batch()


def test_two_ranks_do_the_same_and_rank_0_reports_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "MOST_STEPS", 1)
    peers = ThreadedRanks(2)
    trainers = [CountingTrainer(peers, rank, replicas=2) for rank in range(2)]
    sessions = [RecordingSession(tmp_path, rank) for rank in range(2)]
    commands = {
        FIRST: SaveCheckpoint(),
        ("train", 0, 1): Pause(),
        IN_VALIDATION: EmptyCache(),
        ("train", 1, 1): Stop(),
    }
    trainers[0].after = lambda moment: (
        sessions[0].mailbox.post(commands[moment]) if moment in commands else None
    )
    sessions[0].answers[Paused] = [Resume()]
    loops = [
        Loop(trainer, session, Position())
        for trainer, session in zip(trainers, sessions, strict=True)
    ]
    other = threading.Thread(target=loops[1].run)
    other.start()
    loops[0].run()
    other.join(SECONDS)
    assert not other.is_alive()

    assert trainers[0].done == trainers[1].done == every_batch()[: STEPS + VALIDATIONS + 2]
    figures = [event for event in sessions[1].emitted if isinstance(event, Metrics)]
    assert {points.series for event in figures for points in event.points} == {"rank/1/batches"}
    rest = [event for event in sessions[1].emitted if event not in figures]
    assert rest == [CacheEmptied(1, "cpu:1", 4096)]
    assert CacheEmptied(0, "cpu:0", 4096) in sessions[0].emitted
    saved = checkpoint_files.checkpoints(tmp_path)
    assert [info.manifest.position.step for info in saved] == [1, 6]
    for info in saved:
        assert set(info.manifest.files) == {"rank0", "rank1"}
        assert info.manifest.replicas == 2
