"""The training loop with a trainer that only counts: when what happens, for every command."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from engine import checkpoint
from engine.checkpoint import Position
from engine.commands import Command, EmptyCache, Pause, Resume, SaveCheckpoint, Stop
from engine.events import (
    CacheEmptied,
    CheckpointSaved,
    EpochEnded,
    Event,
    Metrics,
    Notice,
    Paused,
    Progress,
    Resumed,
    TrainingEnded,
    TrainingStarted,
)
from engine.spec import RunSpec
from engine.worker import pace
from engine.worker.loop import Loop
from engine.worker.mailbox import Mailbox

STEPS = 4
"""Steps per epoch."""

VALIDATIONS = 3
EPOCHS = 2
SECONDS = 20.0
"""Longest wait; only a test that fails gets there."""

Moment = tuple[str, int, int]
"""A batch that was just done: ("train" or "validate", epoch, batch), both from 0."""

FIRST: Moment = ("train", 0, 0)
LAST_OF_EPOCH: Moment = ("train", 0, STEPS - 1)
IN_VALIDATION: Moment = ("validate", 0, 0)
BOUNDARIES = pytest.mark.parametrize(
    ("moment", "step"),
    [(FIRST, 1), (LAST_OF_EPOCH, STEPS), (IN_VALIDATION, STEPS)],
    ids=["after the first step", "after the last step of an epoch", "during validation"],
)


class Alone:
    """One rank agrees with itself."""

    def agree(self, word: tuple[int, int]) -> tuple[int, int]:
        return word

    def barrier(self) -> None:
        pass


class Together:
    """What ranks in threads use to meet; one that does not come breaks the barrier."""

    def __init__(self, ranks: int) -> None:
        self._barrier = threading.Barrier(ranks, timeout=SECONDS)
        self._word = (0, 0)

    def agree(self, word: tuple[int, int]) -> tuple[int, int]:
        if word != (0, 0):
            self._word = word
        self._barrier.wait()
        agreed = self._word
        self._barrier.wait()
        self._word = (0, 0)
        self._barrier.wait()
        return agreed

    def barrier(self) -> None:
        self._barrier.wait()


class CountingTrainer:
    """The loss of a step is one divided by its number; the weights are how many steps it did."""

    steps_per_epoch = STEPS
    validation_batches = VALIDATIONS
    parameters = 10

    def __init__(self, peers: Alone | Together, rank: int = 0, replicas: int = 1) -> None:
        self.replicas = replicas
        self.done: list[Moment] = []
        self.after: Callable[[Moment], None] = lambda moment: None
        self.loss: Callable[[int], float] = lambda step: 1 / step
        self.agree = peers.agree
        self.barrier = peers.barrier
        self._rank = rank
        self._validated = 0

    def run_steps(self, epoch: int, batch: int, count: int) -> list[float]:
        return [self._step(epoch, number) for number in range(batch, batch + count)]

    def begin_validation(self) -> None:
        self._validated = 0

    def validate(self, batch: int, count: int) -> None:
        for number in range(batch, batch + count):
            self._validated += 1
            self._note(("validate", self.done[-1][1], number))

    def end_validation(self) -> dict[str, float]:
        return {"loss": 0.5, "seen": float(self._validated)}

    def save(self, folder: Path) -> None:
        (folder / f"rank{self._rank}").write_text(repr(self.done))

    def restore(self, folder: Path) -> None:
        raise NotImplementedError

    def empty_cache(self) -> dict[str, int]:
        return {f"cpu:{self._rank}": 4096}

    def close(self) -> None:
        raise NotImplementedError

    def _step(self, epoch: int, batch: int) -> float:
        self._note(("train", epoch, batch))
        return self.loss(epoch * STEPS + batch + 1)

    def _note(self, moment: Moment) -> None:
        self.done.append(moment)
        self.after(moment)


class RecordingSession:
    """Keeps what is said, and lets a test answer."""

    def __init__(self, folder: Path, rank: int = 0) -> None:
        self.spec = RunSpec(
            recipe="r", strategy="torch/single", devices=("cpu:0",), batch_size=8, epochs=EPOCHS
        )
        self.rank = rank
        self.folder = folder
        self.mailbox = Mailbox()
        self.said: list[Event] = []
        self.answers: dict[type[Event], list[Command]] = {}

    def emit(self, event: Event) -> None:
        self.said.append(event)
        for command in self.answers.get(type(event), []):
            self.mailbox.post(command)


class Training:
    """One rank's loop, and what a test wants to know of it."""

    def __init__(self, folder: Path) -> None:
        self.session = RecordingSession(folder)
        self.trainer = CountingTrainer(Alone())

    def post(self, moment: Moment, *commands: Command) -> None:
        """Have commands come in while the trainer is busy with a batch."""

        def after(now: Moment) -> None:
            if now == moment:
                for command in commands:
                    self.session.mailbox.post(command)

        self.trainer.after = after

    def run(self, position: Position | None = None) -> list[Event]:
        Loop(self.trainer, self.session, position or Position()).run()
        return self.session.said

    def said(self, *kinds: type[Event]) -> list[Event]:
        return [event for event in self.session.said if isinstance(event, kinds)]

    def curve(self, series: str) -> list[tuple[int, float]]:
        return [
            pair
            for event in self.session.said
            if isinstance(event, Metrics)
            for points in event.points
            if points.series == series
            for pair in zip(points.steps, points.values, strict=True)
        ]

    def saved(self) -> list[Position]:
        return [info.manifest.position for info in checkpoint.checkpoints(self.session.folder)]


@pytest.fixture
def training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Training:
    """Looks for commands after every batch, however fast a batch is."""
    monkeypatch.setattr(pace, "MOST_STEPS", 1)
    return Training(tmp_path)


def everything(first_epoch: int = 0) -> list[Moment]:
    """Every batch of a training, in order."""
    return [
        (what, epoch, batch)
        for epoch in range(first_epoch, EPOCHS)
        for what, count in (("train", STEPS), ("validate", VALIDATIONS))
        for batch in range(count)
    ]


def test_every_epoch_is_trained_and_validated_once_and_in_order(training: Training) -> None:
    training.run()
    assert training.trainer.done == everything()


def test_chunks_of_any_length_do_the_same(tmp_path: Path) -> None:
    """Here the pace decides, not the test."""
    training = Training(tmp_path)
    training.run()
    assert training.trainer.done == everything()
    assert [step for step, _ in training.curve("train/loss")] == list(range(1, 9))


def test_what_a_training_says_from_beginning_to_end(training: Training) -> None:
    said = training.run()
    assert said[0] == TrainingStarted(
        step=0, steps_per_epoch=STEPS, epochs=EPOCHS, replicas=1, parameters=10
    )
    assert isinstance(said[-2], CheckpointSaved)
    assert said[-1] == TrainingEnded(step=8, completed=True)
    validation = {"validation/loss": 0.5, "validation/seen": float(VALIDATIONS)}
    assert training.said(EpochEnded) == [
        EpochEnded(1, 4, validation),
        EpochEnded(2, 8, validation),
    ]
    assert {type(event) for event in said} == {
        TrainingStarted,
        Metrics,
        Progress,
        EpochEnded,
        CheckpointSaved,
        TrainingEnded,
    }


def test_the_loss_of_every_step_and_the_validation_of_every_epoch_are_points(
    training: Training,
) -> None:
    training.run()
    assert training.curve("train/loss") == [(step, 1 / step) for step in range(1, 9)]
    assert training.curve("validation/loss") == [(4, 0.5), (8, 0.5)]
    assert training.curve("validation/seen") == [(4, VALIDATIONS), (8, VALIDATIONS)]
    assert [step for step, _ in training.curve("train/samples_per_second")] == list(range(1, 9))


def test_progress_counts_epochs_from_one(training: Training) -> None:
    training.run()
    where = [(e.epoch, e.step) for e in training.said(Progress) if isinstance(e, Progress)]
    assert where == [(1, 1), (1, 2), (1, 3), (1, 4), (2, 5), (2, 6), (2, 7), (2, 8)]


def test_a_finished_training_is_saved(training: Training) -> None:
    training.run()
    assert training.saved() == [Position(epoch=2, batch=0, step=8)]


@BOUNDARIES
def test_a_checkpoint_is_saved_at_the_next_boundary(
    moment: Moment, step: int, training: Training
) -> None:
    training.post(moment, SaveCheckpoint())
    training.run()
    first, last = training.said(CheckpointSaved)
    [info, _] = checkpoint.checkpoints(training.session.folder)
    assert isinstance(first, CheckpointSaved)
    assert (first.path, first.step, first.epoch) == (str(info.folder), step, 0)
    assert first.bytes == info.manifest.bytes
    assert info.manifest.position == Position(epoch=0, batch=step, step=step)
    assert (info.folder / "rank0").read_text().endswith(f"{moment!r}]"), "saved right then"
    assert isinstance(last, CheckpointSaved)
    assert last.step == 8
    assert training.trainer.done == everything()


def test_a_second_checkpoint_of_the_same_step_is_answered_with_the_first(
    training: Training,
) -> None:
    training.post(IN_VALIDATION, SaveCheckpoint())
    training.session.answers[Paused] = [SaveCheckpoint(), Stop()]
    training.session.answers[CheckpointSaved] = [Pause()]
    training.run()
    first, second, third = training.said(CheckpointSaved)
    assert isinstance(first, CheckpointSaved)
    for again in (second, third):
        assert isinstance(again, CheckpointSaved)
        assert (again.path, again.step, again.seconds) == (first.path, first.step, 0)
    assert len(training.saved()) == 1


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
    assert training.said(Paused, Resumed) == [Paused(step), Resumed(step)]
    assert seen == [moment, moment], "nothing was trained while it held"
    assert training.trainer.done == everything()


def test_a_pause_that_is_taken_back_before_the_boundary_is_short(training: Training) -> None:
    training.post(FIRST, Pause(), Resume())
    training.run()
    assert training.said(Paused, Resumed) == [Paused(1), Resumed(1)]


def test_commands_work_while_paused(training: Training) -> None:
    training.post(FIRST, Pause())
    training.session.answers[Paused] = [SaveCheckpoint()]
    training.session.answers[CheckpointSaved] = [EmptyCache()]
    training.session.answers[CacheEmptied] = [Resume()]
    training.run()
    kinds = [type(e) for e in training.said(Paused, Resumed, CheckpointSaved, CacheEmptied)]
    assert kinds[:4] == [Paused, CheckpointSaved, CacheEmptied, Resumed]
    assert training.saved()[0] == Position(epoch=0, batch=1, step=1)


@BOUNDARIES
def test_a_stop_ends_at_the_next_boundary_with_a_checkpoint(
    moment: Moment, step: int, training: Training
) -> None:
    training.post(moment, Stop())
    said = training.run()
    assert training.trainer.done[-1] == moment
    assert training.saved() == [Position(epoch=0, batch=step, step=step)]
    assert said[-1] == TrainingEnded(step=step, completed=False)
    assert training.said(EpochEnded) == []


def test_a_stop_ends_a_pause(training: Training) -> None:
    training.post(FIRST, Pause())
    training.session.answers[Paused] = [Stop()]
    training.run()
    assert training.said(Paused, Resumed) == [Paused(1)]
    assert training.said(TrainingEnded) == [TrainingEnded(step=1, completed=False)]


def test_a_stop_comes_before_a_pause(training: Training) -> None:
    training.post(FIRST, Pause(), Stop())
    training.run()
    assert training.said(Paused) == []
    assert training.said(TrainingEnded) == [TrainingEnded(step=1, completed=False)]


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
    assert training.said(CacheEmptied) == [CacheEmptied(0, "cpu:0", 4096)]
    assert training.trainer.done == everything()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_no_number_is_said_once(value: float, training: Training) -> None:
    training.trainer.loss = lambda step: value if step in (3, 4, 6) else 1.0
    training.run()
    [notice] = training.said(Notice)
    assert isinstance(notice, Notice)
    assert "not a finite number since step 3:" in notice.text
    assert len(training.curve("train/loss")) == 8, "and the training goes on"


def test_the_first_bad_step_inside_a_chunk_is_named(tmp_path: Path) -> None:
    training = Training(tmp_path)  # chunks grow
    training.trainer.loss = lambda step: math.nan if step >= 3 else 1.0
    training.run()
    [notice] = training.said(Notice)
    assert isinstance(notice, Notice)
    assert "since step 3:" in notice.text


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        (Position(epoch=0, batch=3, step=3), everything()[3:]),
        (Position(epoch=0, batch=STEPS, step=STEPS), everything()[STEPS:]),
        (Position(epoch=1, batch=0, step=STEPS), everything(first_epoch=1)),
    ],
    ids=["within an epoch", "before the validation", "between epochs"],
)
def test_a_training_goes_on_from_a_position(
    position: Position, expected: list[Moment], training: Training
) -> None:
    if position.batch == STEPS:
        training.trainer.done.append(LAST_OF_EPOCH)  # so that the trainer knows its epoch
        expected = [LAST_OF_EPOCH, *expected]
    said = training.run(position)
    assert training.trainer.done == expected
    started, ended = said[0], said[-1]
    assert isinstance(started, TrainingStarted)
    assert started.step == position.step
    assert ended == TrainingEnded(step=8, completed=True)
    assert [step for step, _ in training.curve("train/loss")] == list(range(position.step + 1, 9))


def test_stopping_and_going_on_does_what_going_through_does(
    training: Training, tmp_path: Path
) -> None:
    training.post(("train", 1, 1), Stop())
    training.run()
    [position] = training.saved()
    rest = Training(tmp_path)
    rest.run(position)
    assert training.trainer.done + rest.trainer.done == everything()


def test_two_ranks_do_the_same_and_the_first_speaks_for_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "MOST_STEPS", 1)
    peers = Together(2)
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

    assert trainers[0].done == trainers[1].done == everything()[: STEPS + VALIDATIONS + 2]
    assert sessions[1].said == [CacheEmptied(1, "cpu:1", 4096)]
    assert CacheEmptied(0, "cpu:0", 4096) in sessions[0].said
    saved = checkpoint.checkpoints(tmp_path)
    assert [info.manifest.position.step for info in saved] == [1, 6]
    for info in saved:
        assert set(info.manifest.files) == {"rank0", "rank1"}
        assert info.manifest.replicas == 2
