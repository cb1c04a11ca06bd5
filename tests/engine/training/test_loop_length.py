"""A training of a number of steps, and one that its recipe ends: where it validates and stops."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.messages.commands import Stop
from engine.messages.events import EpochEnded, Notice, Progress, TrainingEnded, TrainingStarted
from engine.runs.checkpoints.checkpoint_files import Position
from engine.training.errors import LossNotFinite
from tests.support.loop_doubles import STEPS, Training
from tests.support.sentences import sentence

WITHIN = 6
"""A number of steps that ends within the second epoch."""


def numbers(training: Training) -> list[int]:
    return [step for step, _ in training.curve("train/loss")]


def ended_epochs(training: Training) -> list[int]:
    return [event.epoch for event in training.emitted(EpochEnded) if isinstance(event, EpochEnded)]


@pytest.mark.parametrize("steps", [1, STEPS, WITHIN, 2 * STEPS, 3 * STEPS + 1])
def test_it_takes_so_many_steps_and_ends_with_a_validation(training: Training, steps: int) -> None:
    training.change_spec(steps=steps)
    [started, *_] = training.run()
    assert isinstance(started, TrainingStarted)
    assert (started.epochs, started.total_steps) == (0, steps)
    assert numbers(training) == list(range(1, steps + 1))
    assert ended_epochs(training) == list(range(1, steps // STEPS + 1))
    validated = [step for step, _ in training.curve("validation/loss")]
    at_ends = list(range(STEPS, steps + 1, STEPS))
    assert validated == (at_ends if steps % STEPS == 0 else [*at_ends, steps])
    assert training.saved() == [Position(steps // STEPS, steps % STEPS, steps)]
    assert training.emitted(TrainingEnded) == [TrainingEnded(steps, completed=True)]


def test_it_goes_on_within_the_epoch_with_more_steps(tmp_path: Path) -> None:
    training = Training(tmp_path)
    training.change_spec(steps=2 * STEPS)
    training.run(Position(1, 2, WITHIN))
    assert numbers(training) == [WITHIN + 1, WITHIN + 2]
    assert training.trainer.done[0] == ("train", 1, 2)
    assert ended_epochs(training) == [2]


def test_stopped_in_its_last_validation_it_validates_again(tmp_path: Path) -> None:
    training = Training(tmp_path / "first")
    (tmp_path / "first").mkdir()
    training.change_spec(steps=WITHIN)
    training.post(("validate", 1, 0), Stop())
    training.run()
    assert training.saved() == [Position(1, 2, WITHIN)]
    again = Training(tmp_path / "second")
    (tmp_path / "second").mkdir()
    again.trainer.done.append(("train", 1, 1))
    again.change_spec(steps=WITHIN)
    again.run(Position(1, 2, WITHIN))
    assert numbers(again) == []
    assert [step for step, _ in again.curve("validation/loss")] == [WITHIN]
    assert again.emitted(TrainingEnded) == [TrainingEnded(WITHIN, completed=True)]


def test_the_time_that_is_left_counts_to_its_end(training: Training) -> None:
    training.change_spec(steps=WITHIN)
    training.run()
    left = [e.seconds_left for e in training.emitted(Progress) if isinstance(e, Progress)]
    assert left[0] > 0
    assert left[-1] == 0


def test_a_recipe_ends_the_training_after_an_epoch_and_says_why(training: Training) -> None:
    training.change_spec(epochs=9)
    training.trainer.end_reason = lambda epoch: "No gain." if len(numbers(training)) > 6 else ""
    training.run()
    assert ended_epochs(training) == [1, 2]
    assert training.saved()[-1] == Position(2, 0, 2 * STEPS)
    [ended] = training.emitted(TrainingEnded)
    assert ended == TrainingEnded(2 * STEPS, completed=True, reason="No gain.")


@pytest.mark.parametrize("on_nan", ["continue", "stop"])
def test_inputs_that_are_not_finite_are_said_in_place_of_advice(
    training: Training, on_nan: str
) -> None:
    training.change_spec(on_nan=on_nan)
    training.trainer.input_problem = "The data hold NaN: sample 3."
    training.trainer.loss = lambda step: float("nan") if step == 2 else 1.0
    if on_nan == "stop":
        with pytest.raises(
            LossNotFinite, match=sentence("step-data-hold-nan-sample-check").pattern
        ):
            training.run()
        return
    training.run()
    [notice] = training.emitted(Notice)
    assert isinstance(notice, Notice)
    assert notice.text.endswith(sentence("since-step-data-hold-nan-sample"))
