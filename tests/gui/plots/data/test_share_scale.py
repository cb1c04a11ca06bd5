"""Accuracies that are parts of 1, and accuracies that were logged in percent."""

from __future__ import annotations

import numpy as np

from engine.runs.store.stored_points import StoredPoints
from gui.plots.data.share_scale import ShareScale
from tests.gui import stored_points as points_of


def stored_points(steps: list[float], values: list[float]) -> StoredPoints:
    return points_of.stored_points(np.array(steps), np.array(values))


def test_parts_of_1_are_shown_in_percent() -> None:
    scale = ShareScale()
    (points,), replaces = scale.add("a", stored_points([1.0, 2.0], [0.5, 1.0]), 100, replace=False)
    assert (points.value.tolist(), replaces) == ([50.0, 100.0], False)
    assert list(scale.scaled("a", stored_points([3.0], [0.25]), 100).value) == [25.0]


def test_what_was_logged_in_percent_stays_as_it_is() -> None:
    """Also what came before the first value above 1, and only in this curve."""
    scale = ShareScale()
    scale.add("a", stored_points([1.0], [0.75]), 100, replace=False)
    scale.add("b", stored_points([1.0], [0.5]), 100, replace=False)
    parts, replaces = scale.add("a", stored_points([2.0], [90.0]), 100, replace=False)
    assert replaces
    assert np.concatenate([part.value for part in parts]).tolist() == [0.75, 90.0]
    (points,), replaces = scale.add("a", stored_points([3.0], [0.5]), 100, replace=False)
    assert (points.value.tolist(), replaces) == ([0.5], False)
    assert list(scale.scaled("b", stored_points([2.0], [0.5]), 100).value) == [50.0]


def test_another_run_begins_anew() -> None:
    scale = ShareScale()
    scale.add("a", stored_points([1.0], [90.0]), 100, replace=False)
    scale.remove("a")
    assert list(scale.scaled("a", stored_points([1.0], [0.5]), 100).value) == [50.0]
    scale.add("a", stored_points([1.0], [float("nan")]), 100, replace=False)
    scale.clear()
    assert list(scale.scaled("a", stored_points([1.0], [0.5]), 100).value) == [50.0]
