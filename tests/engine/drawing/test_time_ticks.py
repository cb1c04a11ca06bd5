"""Ticks of an axis of seconds: round, with short labels."""

from __future__ import annotations

import time

import pytest

from engine.drawing import time_ticks


def test_durations() -> None:
    assert time_ticks.duration(0.25, 0.05) == "0.25 s"
    assert time_ticks.duration(3 * 86_400, 86_400) == "3 d"


@pytest.mark.parametrize(
    ("width", "most", "expected"),
    [(1, 5, 0.2), (9, 5, 2), (100, 5, 30), (3600, 5, 900), (86_400, 5, 21_600), (1e6, 4, 604_800)],
)  # fmt: skip
def test_ticks_of_time_are_round(width: float, most: int, expected: float) -> None:
    assert time_ticks.spacing(width, most) == pytest.approx(expected)


def test_a_wall_clock_counts_from_midnight_and_says_the_day(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TZ", "Asia/Kolkata")  # five hours and a half
    time.tzset()
    try:
        midnight = time.mktime((2026, 10, 5, 0, 0, 0, 0, 0, -1))
        found = time_ticks.ticks(midnight - 4000, midnight + 8000, 3600.0, wall=True)
        labels = [time_ticks.clock(tick, 3600.0) for tick in found]
        assert labels == ["23:00", "5 Oct", "01:00", "02:00"]
        assert time_ticks.clock(midnight + 90.5, 0.5) == "00:01:30.5"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_an_axis_of_any_width_has_few_ticks_with_labels() -> None:
    every = time_ticks.spacing(1.76e18, 5)
    found = time_ticks.ticks(0.0, 1.76e18, every, wall=True)
    assert len(found) <= 6
    assert all(time_ticks.clock(tick, every) for tick in found)
