"""Writes exported plots to files; reads all stored points of some series as CSV, in pieces."""

from __future__ import annotations

import csv
import io
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from engine.files.atomic_file import write_atomically
from gui.bridge.machines.machines import UNREADABLE

if TYPE_CHECKING:
    from engine.interface.engine import Engine

_LINES_PER_PIECE = 10_000
"""Lines that are formatted at once."""

Cells = tuple[object, ...]

FindRun = Callable[[str], tuple["Engine", str]]
"""Returns the engine of a run, and its number there; see `Machines.engine_of`."""


class CsvTable(Protocol):
    """A table to export. Both methods raise sqlite3.Error, and OSError if a machine is silent."""

    def points(self) -> int:
        """Return the number of points."""
        ...

    def lines(self) -> Iterator[Cells]:
        """Yield the cells of each line; the first line is the header."""
        ...


class RunTable(NamedTuple):
    """Several series of one run, one after the other."""

    run_id: str
    series: Sequence[str]
    find: FindRun

    def points(self) -> int:
        return _count(self.find, self.run_id, self.series)

    def lines(self) -> Iterator[Cells]:
        """Each line holds the name of the series and one point."""
        yield "series", "step", "unix_time", "value"
        for name in self.series:
            yield from ((name, *point) for point in _points(self.find, self.run_id, name))


class SeriesTable(NamedTuple):
    """One series of several runs side by side: a group of columns for each run."""

    series: str
    run_ids: Mapping[str, str]
    """By the name of the run."""

    find: FindRun

    def points(self) -> int:
        return sum(_count(self.find, run_id, [self.series]) for run_id in self.run_ids.values())

    def lines(self) -> Iterator[Cells]:
        """Line n holds point n of every run; its cells are empty where the run has fewer points."""
        heads = ("step", "unix_time", self.series)
        yield tuple(f"{name} {head}" for name in self.run_ids for head in heads)
        columns = (_points(self.find, run_id, self.series) for run_id in self.run_ids.values())
        for points in zip_longest(*columns, fillvalue=("", "", "")):
            yield tuple(cell for point in points for cell in point)


def csv_text(table: CsvTable) -> str:
    """Return the whole table as CSV. Raises OSError and sqlite3.Error."""
    return "".join(_pieces(table))


def write_csv(table: CsvTable, file: Path) -> int:
    """Write the complete `file` or leave it unchanged; return the number of points. Raises
    OSError and sqlite3.Error."""
    write_atomically(file, _pieces(table))
    return table.points()


EXPORT_ERRORS = (*UNREADABLE, sqlite3.Error)
"""The functions of this module raise these when the disk, a store or a connection fails."""


def write_bytes(file: Path, data: bytes) -> None:
    """Write a picture. Raises OSError."""
    write_atomically(file, data)


def _pieces(table: CsvTable) -> Iterator[str]:
    lines = table.lines()
    while lines_of_piece := list(islice(lines, _LINES_PER_PIECE)):
        piece = io.StringIO()
        csv.writer(piece, lineterminator="\n").writerows(lines_of_piece)
        yield piece.getvalue()


def _count(find: FindRun, run_id: str, series: Sequence[str]) -> int:
    engine, run = find(run_id)
    counts = engine.count_points(run)
    return sum(counts.get(name, 0) for name in series)


def _points(
    find: FindRun, run_id: str, series: str
) -> Iterator[tuple[int | str, str, float | str]]:
    engine, run = find(run_id)
    done, count = 0, engine.count_points(run).get(series, 0)
    while done < count:
        found = engine.read_points(run, series, done)
        if found.count <= done:
            return  # the number of points is wrong
        done = found.count
        steps, times = found.step.astype(int).tolist(), found.time.tolist()
        for step, time, value in zip(steps, times, found.value.tolist(), strict=True):
            yield step, f"{time:.3f}", value
