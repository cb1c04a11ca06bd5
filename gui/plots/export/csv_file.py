"""Writes every stored point of some series as CSV, read from the run stores piece by piece."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, zip_longest
from pathlib import Path
from typing import NamedTuple, Protocol

from engine.runs.store_reader import RunReader
from engine.system.atomic_file import write_atomically

_LINES_PER_PIECE = 10_000
"""Lines that are formatted at once."""

Cells = tuple[object, ...]


class Document(Protocol):
    """A CSV document. Both methods raise sqlite3.Error."""

    def points(self) -> int:
        """Return the number of points."""
        ...

    def lines(self) -> Iterator[Cells]:
        """Yield the cells of each line, first the column titles."""
        ...


class OneRun(NamedTuple):
    """Several series of one run, one after the other."""

    folder: Path
    series: Sequence[str]

    def points(self) -> int:
        """Return the number of points."""
        return _count(self.folder, self.series)

    def lines(self) -> Iterator[Cells]:
        """Yield lines of series name, step, time and value."""
        yield "series", "step", "unix_time", "value"
        for name in self.series:
            yield from ((name, *point) for point in _points(self.folder, name))


class SeveralRuns(NamedTuple):
    """One series of several runs, side by side: a group of columns per run."""

    series: str
    folders: Mapping[str, Path]
    """By the name of the run."""

    def points(self) -> int:
        """Return the number of points."""
        return sum(_count(folder, [self.series]) for folder in self.folders.values())

    def lines(self) -> Iterator[Cells]:
        """Yield lines: line n has point n of every run that has one."""
        heads = ("step", "unix_time", self.series)
        yield tuple(f"{name} {head}" for name in self.folders for head in heads)
        columns = (_points(folder, self.series) for folder in self.folders.values())
        for points in zip_longest(*columns, fillvalue=("", "", "")):
            yield tuple(cell for point in points for cell in point)


def text(document: Document) -> str:
    """Return the whole document. Raises sqlite3.Error."""
    return "".join(_pieces(document))


def write(document: Document, file: Path) -> int:
    """Write `file` atomically, and return the number of points. Raises OSError and
    sqlite3.Error."""
    write_atomically(file, _pieces(document))
    return document.points()


def _pieces(document: Document) -> Iterator[str]:
    lines = document.lines()
    while some := list(islice(lines, _LINES_PER_PIECE)):
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
