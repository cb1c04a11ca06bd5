"""The history of a device: full rate, then means, with gaps, in bounded memory."""

from __future__ import annotations

import numpy as np
import pytest

from engine.telemetry import history
from engine.telemetry.history import BUCKETS, RECENT_POINTS, DeviceHistory
from engine.telemetry.snapshot import DeviceSnapshot

START = 1_000_000.0
"""A time at which a bucket begins."""


def gpu(utilisation: float | None = None, temperature: float | None = None) -> DeviceSnapshot:
    return DeviceSnapshot(
        id="GPU-1",
        kind="gpu",
        label="0",
        name="G",
        utilisation=utilisation,
        temperature=temperature,
    )


def filled(seconds: int) -> DeviceHistory:
    """Utilisation is the second."""
    made = DeviceHistory()
    for second in range(seconds):
        made.add(START + second, gpu(float(second), 40.0))
    return made


def test_the_last_minutes_are_there_at_full_rate() -> None:
    times, values = filled(700).recent("utilisation", 59.0)
    assert list(times) == [START + second for second in range(640, 700)]
    assert list(values) == list(range(640, 700))
    assert set(filled(10).recent("temperature", 600.0)[1]) == {40.0}


def test_before_that_there_are_means_of_ten_seconds() -> None:
    times, values = filled(RECENT_POINTS + 100).recent("utilisation", 3600.0)
    assert list(times[:10]) == [START + 5.0 + 10 * bucket for bucket in range(10)]
    assert list(values[:10]) == [4.5 + 10 * bucket for bucket in range(10)]
    assert list(values[10:]) == list(range(100, RECENT_POINTS + 100))


def test_no_room_is_taken_beyond_the_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "RECENT_POINTS", 20)
    monkeypatch.setattr(history, "BUCKETS", 5)
    times, values = filled(1000).recent("utilisation", 1e6)
    assert len(times) <= 25
    assert list(values[-20:]) == list(range(980, 1000))
    assert BUCKETS * history.BUCKET_SECONDS >= 3600, "hours are kept"


def test_what_is_not_known_is_a_gap_and_not_zero() -> None:
    made = DeviceHistory()
    for second, value in enumerate([50.0, None, 0.0]):
        made.add(START + second, gpu(value))
    np.testing.assert_array_equal(made.recent("utilisation", 60)[1], [50.0, np.nan, 0.0])
    assert np.isnan(made.recent("power", 60)[1]).all()


def test_a_bucket_with_some_values_is_their_mean_and_one_without_is_a_gap() -> None:
    made = DeviceHistory()
    for second in range(RECENT_POINTS + 20):
        made.add(START + second, gpu(30.0 if second % 2 == 0 and second < 10 else None))
    _, values = made.recent("utilisation", 1e6)
    np.testing.assert_array_equal(values[:2], [30.0, np.nan])


def test_time_without_snapshots_is_a_gap_at_both_rates() -> None:
    made = DeviceHistory()
    for second in (*range(20), *range(3600, 3600 + RECENT_POINTS)):
        made.add(START + second, gpu(50.0))
    _, values = made.recent("utilisation", 1e6)
    np.testing.assert_array_equal(values[:3], [50.0, 50.0, np.nan])
    short = DeviceHistory()
    for second in (0, 5, 65):
        short.add(START + second, gpu(50.0))
    np.testing.assert_array_equal(short.recent("utilisation", 600)[1], [50.0, 50.0, np.nan, 50.0])


def test_the_same_snapshot_counts_once_and_a_clock_set_back_begins_a_new_history() -> None:
    made = filled(10)
    made.add(START + 9, gpu(1.0))
    assert len(made.recent("utilisation", 600)[0]) == 10
    made.add(START - 100, gpu(7.0))
    assert [list(column) for column in made.recent("utilisation", 600)] == [[START - 100], [7.0]]


def test_an_empty_history_has_no_points() -> None:
    times, values = DeviceHistory().recent("power", 60)
    assert (len(times), len(values)) == (0, 0)
