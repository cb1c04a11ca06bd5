"""The training loop with a trainer that only counts: steps, events and checkpoints."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from engine.messages.commands import SaveCheckpoint, Stop
from engine.messages.events import (
    CheckpointSaved,
    EpochEnded,
    Metrics,
    Notice,
    Progress,
    TrainingEnded,
    TrainingStarted,
)
from engine.runs.checkpoints.checkpoint_files import Position
from engine.training import loop, reporter
from engine.training.errors import LossNotFinite
from engine.training.protocols import UNKNOWN
from tests.support.loop_doubles import (
    EPOCHS,
    FIRST,
    LAST_OF_EPOCH,
    STEPS,
    VALIDATIONS,
    Moment,
    Training,
    every_batch,
)
from tests.support.sentences import sentence


def test_every_epoch_is_trained_and_validated_once_and_in_order(training: Training) -> None:
    training.run()
    assert training.trainer.done == every_batch()


def test_chunks_of_any_length_do_the_same(tmp_path: Path) -> None:
    """Here the pace decides, not the test."""
    training = Training(tmp_path)
    training.run()
    assert training.trainer.done == every_batch()
    assert [step for step, _ in training.curve("train/loss")] == list(range(1, 9))


def test_the_events_of_a_training_from_beginning_to_end(training: Training) -> None:
    sent = training.run()
    assert sent[0] == TrainingStarted(
        step=0,
        steps_per_epoch=STEPS,
        epochs=EPOCHS,
        replicas=1,
        parameters=10,
        total_steps=STEPS * EPOCHS,
    )
    assert isinstance(sent[-2], CheckpointSaved)
    assert sent[-1] == TrainingEnded(step=8, completed=True)
    validation = {"validation/loss": 0.5, "validation/seen": float(VALIDATIONS)}
    assert training.emitted(EpochEnded) == [
        EpochEnded(1, 4, validation),
        EpochEnded(2, 8, validation),
    ]
    assert {type(event) for event in sent} == {
        TrainingStarted,
        Metrics,
        Progress,
        EpochEnded,
        CheckpointSaved,
        TrainingEnded,
    }


def test_the_throughput_is_of_the_samples_that_the_trainer_had(
    training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not of the batch size of the spec, which is 8; here all steps take the same time."""
    clock = iter(range(10_000))
    monkeypatch.setattr(loop.time, "perf_counter", lambda: float(next(clock)))
    training.run()
    [rate] = {value for _, value in training.curve("train/samples_per_second")}
    told = [event for event in training.emitted(Progress) if isinstance(event, Progress)]
    assert {event.samples_per_second * event.step_seconds for event in told} == {32.0}
    assert {event.samples_per_second for event in told} == {rate}


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
    sent = [(e.epoch, e.step) for e in training.emitted(Progress) if isinstance(e, Progress)]
    where = list(dict.fromkeys(sent))
    assert len(sent) > len(where), "also while it validates, where the step stays"
    assert where == [(1, 1), (1, 2), (1, 3), (1, 4), (2, 5), (2, 6), (2, 7), (2, 8)]


def test_a_finished_training_is_saved(training: Training) -> None:
    training.run()
    assert training.saved() == [Position(epoch=2, batch=0, step=8)]


def test_every_metric_of_a_step_is_a_curve(training: Training) -> None:
    training.run()
    assert training.curve("train/learning_rate") == [(step, 0.1) for step in range(1, 9)]


def test_the_metrics_of_a_rank_are_reported_once_a_second(
    training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    training.run()
    told = training.curve("rank/0/batches")
    assert told == [(1, 1.0), (2, 2.0), (3, 3.0)], "at once, after the warm-up, and every second"
    monkeypatch.setattr(reporter, "RANK_METRICS_SECONDS", 0.0)
    often = Training(training.session.folder)
    often.run()
    steps, batches = zip(*often.curve("rank/0/batches"), strict=True)
    assert steps == tuple(range(1, 9))
    assert list(batches) == sorted(set(batches))


def test_the_step_time_is_a_curve_beside_the_metrics_of_rank_0(
    training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(10_000))
    monkeypatch.setattr(loop.time, "perf_counter", lambda: float(next(clock)))
    monkeypatch.setattr(reporter, "RANK_METRICS_SECONDS", 0.0)
    training.run()
    steps, seconds = zip(*training.curve("train/step_seconds"), strict=True)
    assert steps == tuple(range(3, 9)), "the first ones also compile"
    told = [event for event in training.emitted(Progress) if isinstance(event, Progress)]
    assert set(seconds) == {event.step_seconds for event in told}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_not_finite_is_reported_once(value: float, training: Training) -> None:
    training.trainer.loss = lambda step: value if step in (3, 4, 6) else 1.0
    training.run()
    [notice] = training.emitted(Notice)
    assert isinstance(notice, Notice)
    assert sentence("not-finite-number-since-step") in notice.text
    assert len(training.curve("train/loss")) == 8, "and the training goes on"


def test_every_episode_of_losses_that_are_not_finite_is_reported(
    training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporter, "EPISODE_GAP_STEPS", 2)
    training.change_spec(on_nan="skip")
    training.trainer.loss = lambda step: math.nan if step in (1, 2, 4, 7) else 1.0
    training.run()
    texts = [notice.text for notice in training.emitted(Notice) if isinstance(notice, Notice)]
    assert [text.partition(":")[0].rpartition(" ")[2] for text in texts] == ["1", "7"]
    assert "are left out" in texts[0]


def test_the_first_step_without_a_finite_loss_is_named(tmp_path: Path) -> None:
    training = Training(tmp_path)  # chunks grow
    training.trainer.loss = lambda step: math.nan if step >= 3 else 1.0
    training.run()
    [notice] = training.emitted(Notice)
    assert isinstance(notice, Notice)
    assert "since step 3:" in notice.text


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_ends_the_training_if_the_spec_says_so(
    value: float, training: Training
) -> None:
    training.change_spec(on_nan="stop")
    training.trainer.loss = lambda step: value if step >= 3 else 1.0
    training.post(FIRST, SaveCheckpoint())
    with pytest.raises(LossNotFinite, match=f"The loss is {value} since step 3. Try a smaller"):
        training.run()
    assert training.trainer.done == every_batch()[:3]
    assert [step for step, _ in training.curve("train/loss")] == [1, 2, 3], "also the bad one"
    assert [position.step for position in training.saved()] == [1], "nothing was saved after it"
    assert training.emitted(TrainingEnded, Notice) == []


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        (Position(epoch=0, batch=3, step=3), every_batch()[3:]),
        (Position(epoch=0, batch=STEPS, step=STEPS), every_batch()[STEPS:]),
        (Position(epoch=1, batch=0, step=STEPS), every_batch(first_epoch=1)),
    ],
    ids=["within an epoch", "before the validation", "between epochs"],
)
def test_a_training_is_resumed_from_a_position(
    position: Position, expected: list[Moment], training: Training
) -> None:
    if position.batch == STEPS:
        training.trainer.done.append(LAST_OF_EPOCH)  # so that the trainer knows its epoch
        expected = [LAST_OF_EPOCH, *expected]
    sent = training.run(position)
    assert training.trainer.done == expected
    started, ended = sent[0], sent[-1]
    assert isinstance(started, TrainingStarted)
    assert started.step == position.step
    assert ended == TrainingEnded(step=8, completed=True)
    assert [step for step, _ in training.curve("train/loss")] == list(range(position.step + 1, 9))


def test_stopping_and_resuming_gives_the_same_result(training: Training, tmp_path: Path) -> None:
    training.post(("train", 1, 1), Stop())
    training.run()
    [position] = training.saved()
    rest = Training(tmp_path)
    rest.run(position)
    assert training.trainer.done + rest.trainer.done == every_batch()


def test_an_epoch_of_unknown_length_ends_with_its_data(training: Training) -> None:
    """Also when the chunks do not end where the data do."""
    trainer = training.trainer
    trainer.steps_per_epoch = 0
    trainer.ends_after = STEPS
    sent = training.run()
    assert trainer.done == every_batch()
    [started] = [event for event in sent if isinstance(event, TrainingStarted)]
    assert (started.steps_per_epoch, started.total_steps) == (0, 0)
    assert [event.step for event in sent if isinstance(event, EpochEnded)] == [STEPS, 2 * STEPS]
    assert {e.seconds_left for e in sent if isinstance(e, Progress)} == {0.0}


def test_data_that_end_early_end_the_epoch(training: Training) -> None:
    training.trainer.ends_after = STEPS - 1
    sent = training.run()
    assert [e.step for e in sent if isinstance(e, EpochEnded)] == [STEPS - 1, 2 * (STEPS - 1)]


def test_a_validation_of_unknown_length_ends_with_its_data(training: Training) -> None:
    training.trainer.validation_batches = UNKNOWN
    training.run()
    assert training.trainer.done == every_batch()


def test_without_validation_data_an_epoch_ends_without_metrics(training: Training) -> None:
    training.trainer.validation_batches = 0
    sent = training.run()
    assert [kind for kind, _, _ in training.trainer.done] == ["train"] * STEPS * EPOCHS
    assert [event.metrics for event in sent if isinstance(event, EpochEnded)] == [{}] * EPOCHS
    assert [event.validates for event in sent if isinstance(event, TrainingStarted)] == [False]
    assert sent[-1] == TrainingEnded(step=8, completed=True)
