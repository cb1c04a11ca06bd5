"""Early stopping: which epochs are an improvement, and how a training ends without one."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from engine.messages.events import TrainingEnded
from engine.runs.checkpoints.checkpoint_files import Position
from engine.spec.metric_direction import direction_overrides
from engine.spec.run_spec import RunSpec
from engine.training.early_stopping import EARLY_STOPPING, EarlyStopping
from engine.training.errors import TrainingFailed
from tests.support.loop_doubles import STEPS, Training
from tests.support.sentences import sentence


def stopping(metric: str, state: str = "", **changes: Any) -> EarlyStopping:
    spec = RunSpec(recipe="r", strategy="s", devices=("cpu:0",), early_stopping=metric, **changes)
    return EarlyStopping(spec, direction_overrides({}, metric), state)


def ends_after(early: EarlyStopping, values: list[float]) -> int:
    """The evaluations, from 1, after which the training ends; 0: it does not."""
    return next((n for n, value in enumerate(values, 1) if early.add(n, value)), 0)


@pytest.mark.parametrize(
    ("metric", "patience", "min_delta", "values", "epochs"),
    [
        ("loss", 2, 0.0, [0.5, 0.4, 0.41, 0.42, 0.1], 4),
        ("loss", 2, 0.0, [0.5, 0.4, 0.41, 0.39, 0.4, 0.3], 0),
        ("loss", 1, 0.0, [0.5, 0.5], 2),
        ("accuracy", 2, 0.0, [0.5, 0.6, 0.59, 0.6], 4),
        ("score:min", 1, 0.0, [0.5, 0.4, 0.6], 3),
        ("loss", 2, 0.1, [0.5, 0.45, 0.42, 0.3], 3),
        ("accuracy", 2, 0.1, [0.5, 0.55, 0.61, 0.65, 0.7], 5),
        ("loss", 2, 0.0, [math.nan, math.nan, 0.1], 2),
        ("loss", 2, 0.0, [0.5, math.nan, 0.4, math.inf, math.nan], 5),
    ],
)
def test_after_so_many_evaluations_without_an_improvement_it_ends(
    metric: str, patience: int, min_delta: float, values: list[float], epochs: int
) -> None:
    early = stopping(metric, patience=patience, min_delta=min_delta)
    assert ends_after(early, values) == epochs


def test_without_a_metric_nothing_ends(tmp_path: Path) -> None:
    early = stopping("")
    assert (early.series, early.validated(1, {"validation/loss": 1.0}, tmp_path)) == ((), "")


def test_the_metric_of_a_script_may_have_the_short_name_of_a_validation() -> None:
    assert "validation/loss" in stopping("val/loss").series
    assert "val/loss" in stopping("val/loss").series, "a script may log it so"
    assert "validation/loss" in stopping("loss").series


def test_the_next_attempt_counts_on() -> None:
    before = stopping("loss", patience=3)
    before.add_all([(1, 0.5), (2, 0.6), (3, 0.7)])
    after = stopping("loss", before.state, patience=3)
    assert not after.add(3, 0.7), "the validation of the checkpoint is repeated, and counts once"
    reason = after.add(4, 0.6)
    assert sentence("loss-has-not-improved-for-evaluations") in reason
    assert reason.endswith(sentence("best-was-after-step"))


def test_a_script_that_improves_after_the_decision_says_so() -> None:
    early = stopping("loss", patience=2)
    assert ends_after(early, [0.5, 0.6, 0.7]) == 3
    assert early.improved_later == ""
    for step, value in enumerate([0.4, 0.45, 0.45], 4):
        early.add(step, value)  # the second reason is not told
    assert early.improved_later == sentence("it-improved-before-the-end")


def test_a_training_ends_with_its_epoch_and_the_best_checkpoint_is_kept_and_named(
    training: Training,
) -> None:
    training.change_spec(early_stopping="loss", patience=2, epochs=9)
    training.trainer.validation = lambda epoch: {"loss": [0.5, 0.4, 0.6, 0.45][epoch]}
    ended = training.run()[-1]
    assert isinstance(ended, TrainingEnded)
    assert (ended.step, ended.completed) == (4 * STEPS, True)
    assert sentence("for-evaluations-last-after-step-best") in ended.reason
    assert training.kinds() == {2 * STEPS: ("best",), 4 * STEPS: ("last",)}


def test_workers_of_a_resumed_run_count_on(
    training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = stopping("loss", patience=2)
    before.add_all([(STEPS, 0.1), (2 * STEPS, 0.2)])
    monkeypatch.setenv(EARLY_STOPPING, before.state)
    training.change_spec(early_stopping="loss", patience=2, epochs=9)
    ended = training.run(Position(2, 0, 2 * STEPS))[-1]
    assert isinstance(ended, TrainingEnded)
    assert ended.step == 3 * STEPS


def test_a_metric_that_there_is_not_is_refused_with_those_that_there_are(
    training: Training,
) -> None:
    training.change_spec(early_stopping="f1")
    with pytest.raises(TrainingFailed, match=r"'f1'.*It has: loss, seen"):
        training.run()


def test_without_validation_data_it_is_refused_before_the_first_step(training: Training) -> None:
    training.change_spec(early_stopping="loss")
    training.trainer.validation_batches = 0
    with pytest.raises(TrainingFailed, match="no validation data"):
        training.run()
    assert training.trainer.done == []
