"""What was read of a run in the files of another program, within limits."""

from __future__ import annotations

import itertools
import math
import re
from array import array
from collections.abc import Callable
from typing import NamedTuple

from engine.spec.field_info import Setting
from engine.spec.metric_direction import Direction

LARGEST_STEP = 2**53
"""Steps are drawn as doubles."""

MOST_POINTS = 50_000_000
"""Points of one import: about 1.2 GB of memory while it is read."""

MOST_SERIES = 10_000
MOST_SETTINGS = 1_000
MOST_RUNS = 1_000
LONGEST_NAME = 300
LONGEST_SETTING = 2_000

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

    def drop_from(self, step: int) -> None:
        """Leave out the points from `step` on."""
        kept = [place for place, each in enumerate(self.steps) if each < step]
        if len(kept) < len(self.steps):
            for name in ("steps", "times", "values"):
                column = getattr(self, name)
                setattr(self, name, array(column.typecode, [column[place] for place in kept]))

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

    def add(self, series: str, step: int, time: float, value: float) -> None:
        """Add a point. Raises CannotImport."""
        columns = self.series.get(series)
        if columns is None:
            if len(self.series) >= MOST_SERIES:
                raise CannotImport(f"{self.source} has more than {MOST_SERIES:,} series.")
            columns = self.series[series] = Columns()
        if not 0 <= step <= LARGEST_STEP:
            raise CannotImport(f"{self.source} has a point of {series!r} at the step {step}.")
        if not math.isfinite(time):
            raise CannotImport(f"{self.source} has a point of {series!r} at the time {time}.")
        columns.add(step, time, value)

    def set(self, name: str, value: Setting) -> None:
        """Add a setting, within the limits."""
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

    @property
    def points(self) -> int:
        """The number of points."""
        return sum(len(columns.steps) for columns in self.series.values())


def readable(name: str) -> str:
    """Return a name from a file without characters that cannot be shown."""
    return _UNREADABLE.sub("\N{REPLACEMENT CHARACTER}", name).strip() or "unnamed"


_UNREADABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
