"""When a checkpoint is due, with the times chosen by the test."""

from __future__ import annotations

from typing import Any

import pytest

from engine.runs.checkpoints.checkpoint_files import Manifest, Position
from engine.spec.metric_direction import direction_overrides, lower_is_better
from engine.spec.run_spec import RunSpec
from engine.training.checkpoints.schedule import CheckpointSchedule

RECIPE = {"novelty": "min"}


def schedule(
    start: Position | None = None, saved: tuple[Manifest, ...] = (), **wishes: Any
) -> CheckpointSchedule:
    """A plan that begins at second 1000."""
    spec = RunSpec(recipe="r", strategy="torch/single", devices=("cpu:0",), **wishes)
    directions = direction_overrides(RECIPE, spec.checkpoint_best)
    return CheckpointSchedule(spec, directions, start or Position(), 1000.0, saved)


def at(step: int) -> Position:
    return Position(epoch=0, batch=step, step=step)


def manifest(step: int, *kinds: str, **metrics: float) -> Manifest:
    return Manifest(
        position=at(step),
        strategy="torch/single",
        replicas=1,
        saved=1.0,
        files={},
        kinds=kinds,
        metrics={f"validation/{name}": value for name, value in metrics.items()},
    )


def test_minutes_count_from_the_last_checkpoint_whatever_its_reason() -> None:
    every_two = schedule(checkpoint_minutes=2.0)
    assert every_two.due(at(1), 1119.9) == set()
    assert every_two.due(at(2), 1120.0) == {"minutes"}
    every_two.saved(1130.0)
    assert every_two.due(at(3), 1249.0) == set()
    assert every_two.due(at(4), 1250.0) == {"minutes"}


def test_no_checkpoint_is_due_before_a_step_was_trained() -> None:
    busy = schedule(at(6), checkpoint_minutes=1.0, checkpoint_steps=3)
    assert busy.due(at(6), 9999.0) == set()
    assert busy.due(at(9), 1001.0) == {"steps"}


def test_zero_means_never() -> None:
    idle = schedule(checkpoint_minutes=0.0)
    idle.validated(1, {"validation/loss": 0.1})
    assert idle.due(at(10), 1e9) == set()
    assert idle.steps_until_due(7) > 1e9


@pytest.mark.parametrize(("step", "left"), [(0, 5), (1, 4), (4, 1), (5, 5), (13, 2)])
def test_a_chunk_ends_where_a_checkpoint_is_due(step: int, left: int) -> None:
    assert schedule(checkpoint_steps=5).steps_until_due(step) == left


def test_a_checkpoint_due_after_a_validation_is_due_once() -> None:
    both = schedule(checkpoint_epochs=2, checkpoint_best="loss")
    assert both.validated(2, {"validation/loss": 0.5}) == ""
    assert both.due(at(4), 1000.0) == {"epochs", "best"}
    assert both.due(at(5), 1000.0) == set()
    both.validated(3, {"validation/loss": 0.5})
    assert both.due(at(6), 1000.0) == set(), "equal is not better"


def test_only_checkpoints_that_were_best_count_after_a_resume() -> None:
    saved = (manifest(3, "best", loss=0.4), manifest(6, "last", loss=0.1))
    resumed = schedule(at(6), saved, checkpoint_best="loss")
    assert resumed.metrics == {"validation/loss": 0.1}
    resumed.validated(2, {"validation/loss": 0.41})
    assert resumed.due(at(8), 1000.0) == set()
    resumed.validated(3, {"validation/loss": 0.39})
    assert resumed.due(at(12), 1000.0) == {"best"}


@pytest.mark.parametrize(
    ("metric", "lower"),
    [
        ("loss", True),
        ("validation/loss", True),
        ("Top1_Error", True),
        ("perplexity", True),
        ("accuracy", False),
        ("f1", False),
    ],
)
def test_which_way_is_better(metric: str, lower: bool) -> None:
    assert lower_is_better(metric) is lower


@pytest.mark.parametrize(
    ("wanted", "values", "best"),
    [
        ("mae", [0.5, 0.6, 0.4], [True, False, True]),
        ("word_errors", [5, 6, 4], [True, False, True]),
        ("novelty", [0.5, 0.6, 0.4], [True, False, True]),
        ("mae:max", [0.5, 0.6, 0.4], [True, True, False]),
        ("novelty:max", [0.5, 0.6, 0.4], [True, True, False]),
        ("validation/score:min", [0.5, 0.6, 0.4], [True, False, True]),
    ],
)
def test_the_name_the_recipe_or_the_user_decides_which_way_is_better(
    wanted: str, values: list[float], best: list[bool]
) -> None:
    by_metric = schedule(checkpoint_best=wanted)
    name = wanted.removeprefix("validation/").partition(":")[0]
    found = []
    for epoch, value in enumerate(values, start=1):
        by_metric.validated(epoch, {f"validation/{name}": value})
        found.append("best" in by_metric.due(at(epoch), 1000.0))
    assert found == best


def test_a_metric_that_is_missing_is_named_without_its_direction() -> None:
    notice = schedule(checkpoint_best="mea:min").validated(1, {"validation/mae": 0.5})
    assert "by 'mea'" in notice
    assert "It has: mae." in notice
