"""Every stored point of some series as CSV, read from the stores of runs in pieces."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, zip_longest
from pathlib import Path
from typing import NamedTuple, Protocol

from engine.runs.store_reader import RunReader
from engine.system.atomic_file import write_atomically

_LINES = 10_000
"""Lines that are made at once."""

Cells = tuple[object, ...]


class Document(Protocol):
    """What can be written. Both methods raise sqlite3.Error."""

    def points(self) -> int:
        """How many points there are."""
        ...

    def lines(self) -> Iterator[Cells]:
        """The cells of each line, the heads first."""
        ...


class OneRun(NamedTuple):
    """Several series of one run below each other."""

    folder: Path
    series: Sequence[str]

    def points(self) -> int:
        """How many points there are."""
        return _count(self.folder, self.series)

    def lines(self) -> Iterator[Cells]:
        """The series by its name, and the point."""
        yield "series", "step", "unix_time", "value"
        for name in self.series:
            yield from ((name, *point) for point in _points(self.folder, name))


class SeveralRuns(NamedTuple):
    """One series of several runs beside each other: a group of columns for each."""

    series: str
    folders: Mapping[str, Path]
    """By what the run is called."""

    def points(self) -> int:
        """How many points there are."""
        return sum(_count(folder, [self.series]) for folder in self.folders.values())

    def lines(self) -> Iterator[Cells]:
        """Line n holds the point number n of every run that has so many."""
        heads = ("step", "unix_time", self.series)
        yield tuple(f"{name} {head}" for name in self.folders for head in heads)
        columns = (_points(folder, self.series) for folder in self.folders.values())
        for points in zip_longest(*columns, fillvalue=("", "", "")):
            yield tuple(cell for point in points for cell in point)


def text(document: Document) -> str:
    """The whole document. Raises sqlite3.Error."""
    return "".join(_pieces(document))


def write(document: Document, file: Path) -> int:
    """Write `file` at once or not at all; returns the number of points. Raises OSError and
    sqlite3.Error."""
    write_atomically(file, _pieces(document))
    return document.points()


def _pieces(document: Document) -> Iterator[str]:
    lines = document.lines()
    while some := list(islice(lines, _LINES)):
        piece = io.StringIO()
        csv.writer(piece, lineterminator="\n").writerows(some)
        yield piece.getvalue()


def _count(folder: Path, series: Sequence[str]) -> int:
    with RunReader(folder) as reader:
        counts = reader.counts()
    return sum(counts.get(name, 0) for name in series)


def _points(folder: Path, series: str) -> Iterator[tuple[int | str, str, float | str]]:
    with RunReader(folder) as reader:
        for batch in reader.batches(series):
            steps, times = batch.step.astype(int).tolist(), batch.time.tolist()
            for step, time, value in zip(steps, times, batch.value.tolist(), strict=True):
                yield step, f"{time:.3f}", value
