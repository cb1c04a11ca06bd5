"""What was read of a run in the files of another program, within limits."""

from __future__ import annotations

import itertools
import math
import re
from array import array
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from engine.scripts.secrets import shown_setting
from engine.spec.field_info import Setting
from engine.spec.metric_direction import Direction

LARGEST_STEP = 2**53
"""Steps are drawn as doubles."""

UNDRAWABLE_STEP = "a step below 0 or above 2^53, which cannot be drawn"

MOST_POINTS = 50_000_000
"""Points of one import: about 1.2 GB of memory while it is read."""

MOST_SERIES = 10_000
MOST_SETTINGS = 1_000
MOST_RUNS = 1_000
LONGEST_NAME = 300
LONGEST_SETTING = 2_000
_MOST_NAMED = 5
_UNITS = (1.0, 1e3, 1e6, 1e9)
_LARGEST_MOMENT = 1e11
"""Seconds until the year 5138. The units are so far apart that each date has one of them."""

EARLIEST_MOMENT = 631_152_000.0
"""1990: what is smaller is no date of a training, but a time since its start."""

Progress = Callable[[int, int], None]
"""Called with the bytes that were read, and of all. It may raise to cancel."""


class CannotImport(Exception):
    """Nothing was imported; the text is a sentence."""


class Columns:
    """The points of one series, in the order in which they were read."""

    def __init__(self) -> None:
        self.steps, self.times, self.values = array("q"), array("d"), array("d")

    def add(self, step: int, time: float, value: float) -> None:
        """Add a point."""
        self.steps.append(step)
        self.times.append(time)
        self.values.append(value)

    def drop_from(self, step: int, end: int) -> int:
        """Leave out those of the first `end` points that are at `step` or later; return how many
        these are."""
        kept = [place for place, each in enumerate(self.steps) if each < step or place >= end]
        dropped = len(self.steps) - len(kept)
        if dropped:
            for name in ("steps", "times", "values"):
                column = getattr(self, name)
                setattr(self, name, array(column.typecode, [column[place] for place in kept]))
        return dropped

    def sorted(self) -> tuple[list[int], list[float], list[float]]:
        """Return steps, times and values by ascending step; equal ones keep their order."""
        steps = self.steps.tolist()
        if all(a <= b for a, b in itertools.pairwise(steps)):
            return steps, self.times.tolist(), self.values.tolist()
        order = sorted(range(len(steps)), key=steps.__getitem__)
        return (
            [steps[place] for place in order],
            [self.times[place] for place in order],
            [self.values[place] for place in order],
        )


class FoundImage(NamedTuple):
    """An image: the content of a PNG."""

    series: str
    step: int
    time: float
    png: bytes
    size: tuple[int, int]
    """Width and height."""


class FoundHistogram(NamedTuple):
    """A histogram: `edges` are one more than `counts`."""

    series: str
    step: int
    time: float
    edges: list[float]
    counts: list[float]


class FoundRun:
    """A run to be imported."""

    def __init__(self, name: str, kind: str, source: str) -> None:
        """`kind`: of which program; `source`: the absolute path of the file or folder."""
        self.name = readable(name)[:LONGEST_NAME]
        self.kind, self.source = kind, source
        self.series: dict[str, Columns] = {}
        self.images: list[FoundImage] = []
        self.histograms: list[FoundHistogram] = []
        self.settings: dict[str, Setting] = {}
        self.directions: dict[str, Direction] = {}
        """Which way a metric is better, where that was chosen."""

        self.tags: tuple[str, ...] = ()
        self.note = ""
        self.remarks: list[str] = []
        """What is left out, in sentences."""

        self._secrets: list[str] = []
        """Settings in which something was hidden."""

        self._left_out: dict[str, Counter[str]] = {}
        """How much is left out of each series, by what it has."""

    def add(self, series: str, step: int, time: float, value: float) -> None:
        """Add a point; one at a step that cannot be drawn is left out, and counted. Raises
        CannotImport."""
        if not 0 <= step <= LARGEST_STEP:
            self.leave_out(UNDRAWABLE_STEP, series)
            return
        columns = self.series.get(series)
        if columns is None:
            if len(self.series) >= MOST_SERIES:
                raise CannotImport(f"{self.source} has more than {MOST_SERIES:,} series.")
            columns = self.series[series] = Columns()
        columns.add(step, time, value)

    def set(self, name: str, value: Setting) -> None:
        """Add a setting, within the limits and without secrets."""
        shown = shown_setting(name, value)
        if shown != value and name not in self._secrets:
            self._secrets.append(readable(name)[:LONGEST_NAME])
        value = shown
        if isinstance(value, int) and not -(2**63) < value < 2**63:
            value = float(value)
        if isinstance(value, str):
            value = value[:LONGEST_SETTING]
        if len(self.settings) < MOST_SETTINGS:
            self.settings[readable(name)[:LONGEST_NAME]] = value

    def remark(self, text: str) -> None:
        """Remember a sentence about what is left out, once."""
        if text not in self.remarks:
            self.remarks.append(text)

    def leave_out(self, what: str, series: str, count: int = 1) -> None:
        """Count what is left out of a series because of `what` it has."""
        self._left_out.setdefault(what, Counter())[series] += count

    def finish(self) -> None:
        """Say what was left out."""
        for what, counts in self._left_out.items():
            named = [f"{series} ({count:,})" for series, count in counts.most_common(_MOST_NAMED)]
            more = len(counts) - len(named)
            further = f" and of {more:,} more series" if more else ""
            self.remark(f"{counts.total():,} left out with {what}: {', '.join(named)}{further}.")
        self._left_out.clear()
        if self._secrets:
            names = sorted(self._secrets)[:_MOST_NAMED]
            more = len(self._secrets) - len(names)
            text = ", ".join(names) + (f" and {more:,} more" if more else "")
            self.remark(f"Settings that seem to hold a secret, stored without it: {text}.")
            self._secrets.clear()

    def end_at(self, moment: float) -> None:
        """Shift the times that tell how long the run lasted, so that the last is `moment`."""
        times = (time for each in self.series.values() for time in each.times)
        last = max((time for time in times if time < EARLIEST_MOMENT), default=0.0)
        for each in self.series.values():
            shifted = (moment - last + t if t < EARLIEST_MOMENT else t for t in each.times)
            each.times = array("d", shifted)

    @property
    def points(self) -> int:
        """The number of points."""
        return sum(len(columns.steps) for columns in self.series.values())


def seconds_of(moment: float) -> float | None:
    """Return seconds since 1970 of a moment in s, ms, us or ns; None if it is no such moment."""
    if not math.isfinite(moment):
        return None
    for unit in _UNITS:
        if abs(moment / unit) < _LARGEST_MOMENT:
            return moment / unit
    return None


def readable(name: str) -> str:
    """Return a name from a file without characters that cannot be shown."""
    return _UNREADABLE.sub("\N{REPLACEMENT CHARACTER}", name).strip() or "unnamed"


_UNREADABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
