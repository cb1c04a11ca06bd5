"""Byte sizes, durations and times as text."""

from __future__ import annotations

import math
import time

import pytest

from engine.system import units

MOMENT = 1_700_000_000.25


def test_sizes_have_the_largest_unit_that_leaves_at_least_one() -> None:
    texts = [units.byte_size(size) for size in (5, 1023, 1536, 30 << 30, 2 << 40)]
    assert texts == ["5 B", "1023 B", "1.5 KiB", "30.0 GiB", "2.0 TiB"]
    assert (units.gib(units.GIB // 4), units.gib(units.GIB // 4, 2)) == ("0.2 GiB", "0.25 GiB")


def test_durations() -> None:
    assert units.duration(59.6) == "0:01:00"
    assert units.duration(-61) == "−0:01:01"
    assert units.duration(-0.2) == "0:00:00"
    assert units.duration(100 * 3600) == "100:00:00"
    assert [units.short_duration(seconds) for seconds in (7, 59.6, 3723)] == [
        "0:07",
        "1:00",
        "1:02:03",
    ]
    assert [units.steady_duration(seconds) for seconds in (-1, 761, 2 * 86_400 + 3723)] == [
        "00:00:00",
        "00:12:41",
        "2 d 01:02:03",
    ]


def test_moments_are_local() -> None:
    local = time.localtime(MOMENT)
    assert units.time_of_day(MOMENT) == time.strftime("%H:%M:%S", local)
    assert units.time_of_day(MOMENT, milliseconds=True) == time.strftime("%H:%M:%S.250", local)
    assert units.date_and_time(MOMENT) == time.strftime("%Y-%m-%d %H:%M:%S", local)
    assert units.date_or_time(MOMENT) == time.strftime("%Y-%m-%d %H:%M", local)
    said = [units.ago(MOMENT, MOMENT + later) for later in (-5, 59, 60, 3599, 3600, 86_399)]
    minutes = ["1 min ago", "59 min ago"]
    assert said == ["just now", "just now", *minutes, "1 h ago", "23 h ago"]
    assert units.ago(MOMENT, MOMENT + 86_400) == time.strftime("%Y-%m-%d", local)
    now = time.time()
    assert units.date_or_time(now) in (
        time.strftime("%H:%M", time.localtime(now)),
        time.strftime("%Y-%m-%d %H:%M", time.localtime(now)),  # midnight has just passed
    )


@pytest.mark.parametrize("moment", [1.76e18, -1e300, math.inf, math.nan])
def test_moments_that_no_calendar_has_have_a_text(moment: float) -> None:
    texts = {
        units.time_of_day(moment, milliseconds=True),
        units.date_and_time(moment),
        units.date_or_time(moment),
        units.date_and_minute(moment),
    }
    assert texts == {units.UNKNOWN}
    assert units.utc_offset(moment) == 0
    assert units.ago(moment, 0.0)
