"""Reads CSV: ours, downloads of TensorBoard and W&B, and tables with a column for each metric."""

from __future__ import annotations

import csv
import io
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from engine.exports.csv_files import POINTS, RUNS
from engine.exports.tables import POINT_COLUMNS
from engine.files.regular_file import open_regular
from engine.imports.found_run import (
    EARLIEST_MOMENT,
    MOST_POINTS,
    MOST_RUNS,
    MOST_SERIES,
    CannotImport,
    FoundRun,
    Progress,
    readable,
    seconds_of,
)
from engine.runs.run_notes import tags_of
from engine.runs.table.csv_text import unsafe
from engine.spec.field_info import Setting
from engine.spec.metric_direction import DIRECTIONS

KIND = "csv"
MOST_COLUMNS = 20_000
LARGEST_RUNS_FILE = 64 * 2**20

_LINES_PER_TICK = 5000
_STEP_NAMES = ("step", "_step", "global_step", "steps", "iteration", "iter", "epoch")
_TIME_NAMES = ("unix_time", "wall_time", "wall time", "_timestamp", "timestamp", "time")
_SERIES_NAMES = ("series", "tag", "metric")
_RUN_NAMES = ("run", "run_id", "run_name")
_WANDB_ELAPSED = ("relative time (process)", "relative time (wall)")
_WANDB_TIMES = (*_WANDB_ELAPSED, "wall time")
_WANDB_STEP = " - _step"
_WANDB_COLUMN = re.compile(r"(.+) - (.+?)(__MIN|__MAX)?")
"""Names of runs hold dashes more often than those of metrics."""

_TENSORBOARD_FILE = re.compile(r"run-(.+)-tag-(.+)")
_DIRECTION = "direction."
_AGAIN = "a step that later lines train again (of several runs, name the column: --run-column)"
_MOST_RETURNS = 1000


class ColumnNames(msgspec.Struct, frozen=True):
    """Which columns mean what; an empty name lets the header decide."""

    step: str = ""
    time: str = ""
    series: str = ""
    """The name of the series, in a table with one point in a line; then also `value`."""

    value: str = ""
    run: str = ""


class Header(msgspec.Struct, frozen=True):
    """The columns of a CSV file, for a person who says which of them means what."""

    columns: tuple[str, ...]
    guess: ColumnNames
    is_certain: bool
    """Whether the program that wrote the file is known by its columns."""


def read_header(path: Path) -> Header:
    """Return the columns of a file, and what they probably mean. Raises CannotImport, OSError."""
    with _opened(path) as file:
        names = _names(next(file.lines), path)
    lower = {name.casefold(): name for name in reversed(names)}
    certain = _is_ours(lower) or _is_tensorboard(lower) or _is_wandb(names)
    return Header(tuple(names), _guess(lower, ColumnNames()), certain)


def read_csv(path: Path, names: ColumnNames, progress: Progress) -> list[FoundRun]:
    """Return the runs in the file `path`. Raises CannotImport, with the line, and OSError."""
    with _opened(path) as file:
        columns = _names(next(file.lines), path)
        table = _Table(path, columns, names, file.written, decimal_comma=file.delimiter == ";")
        for number, line in enumerate(file.lines, 2):
            if line:
                table.add(number, line)
            if not number % _LINES_PER_TICK:
                progress(min(file.raw.tell(), file.size), file.size)
                if table.points > MOST_POINTS:
                    raise CannotImport(f"{path} has more than {MOST_POINTS:,} points.")
    runs = table.finish()
    if _is_ours({name.casefold(): name for name in columns}) and (facts := facts_beside(path)):
        _add_facts(facts, runs)
    return list(runs.values())


def facts_beside(points: Path) -> Path | None:
    """Return the table of runs beside our table of points, if there is one."""
    file = points.with_name(points.name.replace(POINTS, RUNS))
    return file if file != points and file.is_file() else None


class _Table:
    """Puts the cells of each line where the header says."""

    def __init__(
        self,
        path: Path,
        columns: list[str],
        names: ColumnNames,
        written: float,
        *,
        decimal_comma: bool,
    ) -> None:
        self._path, self._columns = path, columns
        self._written = written
        """When the file was written: the time of points that have none."""

        self._decimal_comma = decimal_comma
        self._runs: dict[str, FoundRun] = {}
        self._texts: set[int] = set()
        """Columns that hold no numbers."""

        self._numbers: set[int] = set()
        self._last_step: dict[tuple[str, str], int] = {}
        self._returns: Counter[tuple[str, str]] = Counter()
        """How often the lines go back to a step that is new: they are in no order."""

        self._remarks: list[str] = []
        self.points = 0
        lower = {name.casefold(): name for name in reversed(columns)}
        for given in filter(None, (names.step, names.time, names.series, names.value, names.run)):
            if given not in columns:
                raise CannotImport(
                    f"{path} has no column {given!r}: its columns are {_listed(columns)}."
                )
        given_any = any((names.step, names.series, names.value))
        self._add_line: Callable[[int, list[str]], None] = self._add_wide
        self._values: dict[int, tuple[str, str]] = {}
        """Run and series of each column of values."""

        if not given_any and _is_tensorboard(lower):
            found = _TENSORBOARD_FILE.fullmatch(path.stem)
            self._default_run = found[1] if found else path.stem
            series = found[2] if found else path.stem
            self._values = {columns.index(lower["value"]): ("", series)}
        else:
            self._default_run = path.stem
        self._steps_of: dict[str, int] = {}
        """The column of the steps of each run, in a table of W&B over the time."""

        self._is_elapsed = False
        """Whether times count from the start of the run."""

        if not given_any and _is_wandb(columns):
            guess = ColumnNames(step=columns[0], run="")
            self._read_wandb_header()
        else:
            guess = _guess(lower, names)
        if not guess.step:
            raise CannotImport(
                f"{path} does not say which column is the step: say which of {_listed(columns)} it "
                "is (--step-column)."
            )
        place_of = {name: place for place, name in reversed(list(enumerate(columns)))}
        self._step = place_of[guess.step]
        self._time = place_of[guess.time] if guess.time else -1
        if self._steps_of:
            self._time = 0
        self._run = place_of[guess.run] if guess.run else -1
        self._series = place_of[guess.series] if guess.series else -1
        if guess.series:
            if not guess.value:
                raise CannotImport(
                    f"{path} has a column of series, {guess.series!r}: say which column is the "
                    "value (--value-column)."
                )
            self._value = place_of[guess.value]
            self._add_line = self._add_long
        elif not self._values:
            used = {self._step, self._time, self._run}
            chosen = [place_of[guess.value]] if guess.value else range(len(columns))
            self._values = {place: ("", columns[place]) for place in chosen if place not in used}
        if not guess.series and not self._values:
            raise CannotImport(f"{path} has no column of values beside {guess.step!r}.")

    def add(self, number: int, line: list[str]) -> None:
        """Add a line. Raises CannotImport."""
        if len(line) != len(self._columns):
            raise CannotImport(
                f"{self._path}, line {number}: it has {len(line)} cells, and the first line "
                f"{len(self._columns)}."
            )
        self._add_line(number, line)

    def finish(self) -> dict[str, FoundRun]:
        """Return the runs by the text that names them. Raises CannotImport without a point."""
        texts = [self._columns[place] for place in sorted(self._texts)]
        for run in self._runs.values():
            run.finish()
        runs = {name: run for name, run in self._runs.items() if run.points}
        for name in self._runs.keys() - runs.keys():
            self._remarks += [f"{name}: {text}" for text in self._runs[name].remarks]
        if not runs:
            raise CannotImport(f"{self._path} holds no points. {' '.join(self._remarks)}".rstrip())
        for run in runs.values():
            if self._is_elapsed:
                run.end_at(self._written)
            if texts:
                run.remark(f"These columns hold no numbers and are left out: {_listed(texts)}.")
            for text in self._remarks:
                run.remark(text)
        return runs

    def _add_long(self, number: int, line: list[str]) -> None:
        series = unsafe(line[self._series].strip())
        if not series:
            raise CannotImport(f"{self._path}, line {number}: the name of the series is empty.")
        run, step, time = self._place(number, line)
        text = line[self._value]
        value = self._number(text)
        if value is None:
            raise self._no_number(number, self._value, text)
        series = readable(series)
        self._begin_again(run, step, series)
        self._add_point(run, series, step, time, value)

    def _add_wide(self, number: int, line: list[str]) -> None:
        filled = [place for place in self._values if line[place].strip()]
        if not filled:
            return
        run, step, time = ("", 0, 0.0) if self._steps_of else self._place(number, line)
        if not self._steps_of:
            self._begin_again(run, step)
        for place in filled:
            if place in self._texts:
                continue
            if self._steps_of:
                run, step, time = self._place(number, line, self._steps_of[self._values[place][0]])
            value = self._number(line[place])
            if value is None:
                if place in self._numbers:
                    raise self._no_number(number, place, line[place])
                self._texts.add(place)
                continue
            self._numbers.add(place)
            of_run, series = self._values[place]
            self._add_point(of_run or run, readable(series), step, time, value)

    def _place(self, number: int, line: list[str], column: int = -1) -> tuple[str, int, float]:
        column = self._step if column < 0 else column
        text = line[column]
        value = self._number(text)
        if value is None or not math.isfinite(value) or not value.is_integer():
            raise CannotImport(
                f"{self._path}, line {number}: the step ({self._columns[column]}) must be a "
                f"whole number, not {_quoted(text)}."
            )
        run = line[self._run].strip() if self._run >= 0 else ""
        # Through a double, a step above 2^53 would change: the run leaves those out.
        return run or self._default_run, int(value), self._moment(number, line)

    def _moment(self, number: int, line: list[str]) -> float:
        text = line[self._time].strip() if self._time >= 0 else ""
        if not text:
            return self._written
        value = self._number(text)
        if value is None:
            try:
                return datetime.fromisoformat(text).timestamp()
            except (ValueError, OverflowError, OSError):
                raise CannotImport(
                    f"{self._path}, line {number}: {_quoted(text)} is no time: write seconds since "
                    "1970, or 2026-01-31 14:02:11."
                ) from None
        moment = seconds_of(value)
        if moment is None:
            text = "Times that are no dates are replaced by that of the file."
            self._remarks += [text] * (text not in self._remarks)
            return self._written
        if moment < EARLIEST_MOMENT and not self._is_elapsed:
            self._is_elapsed = True
            self._remarks.append(
                f"The times ({self._columns[self._time]}) count from the start of the run: the "
                "last is taken to be when the file was written."
            )
        return moment

    def _begin_again(self, run: str, step: int, series: str = "") -> None:
        """Leave out what the lines before have from `step` on, if they have that step already, and
        the lines go back to it: the program has trained it again. Empty `series`: of all."""
        key = run, series
        before, self._last_step[key] = self._last_step.get(key, step), step
        found = self._runs.get(run)
        if step >= before or found is None or self._returns[key] > _MOST_RETURNS:
            return
        those = {n: each for n, each in found.series.items() if series in ("", n)}
        if not any(step in each.steps for each in those.values()):
            self._returns[key] += 1
            return
        for name, columns in those.items():
            if dropped := columns.drop_from(step, len(columns.steps)):
                found.leave_out(_AGAIN, name, dropped)

    def _add_point(self, run: str, series: str, step: int, time: float, value: float) -> None:
        found = self._runs.get(run)
        if found is None:
            if len(self._runs) >= MOST_RUNS:
                raise CannotImport(f"{self._path} has more than {MOST_RUNS:,} runs.")
            found = self._runs[run] = FoundRun(run, KIND, str(self._path))
        found.add(series, step, time, value)
        self.points += 1

    def _number(self, text: str) -> float | None:
        if self._decimal_comma and "," in text:
            text = text.replace(",", ".")
        try:
            return float(text)
        except ValueError:
            return None

    def _no_number(self, number: int, place: int, text: str) -> CannotImport:
        return CannotImport(
            f"{self._path}, line {number}, column {self._columns[place]}: {_quoted(text)} is no "
            "number."
        )

    def _read_wandb_header(self) -> None:
        """Find run and series of each column, which is named `RUN - SERIES`."""
        columns = self._columns
        stepped = {
            name.removesuffix(_WANDB_STEP): place
            for place, name in enumerate(columns)
            if name.endswith(_WANDB_STEP)
        }
        runs = sorted(stepped, key=len, reverse=True)
        for place, column in enumerate(columns[1:], 1):
            match = _WANDB_COLUMN.fullmatch(column)
            if not match or match[3] or place in stepped.values():
                continue
            run = next((each for each in runs if column.startswith(f"{each} - ")), match[1])
            self._values[place] = run, column.removeprefix(f"{run} - ")
        first = columns[0].casefold()
        if first in _WANDB_TIMES:
            self._is_elapsed = first in _WANDB_ELAPSED
            if lacking := sorted({run for run, _ in self._values.values()} - stepped.keys()):
                raise CannotImport(
                    f"{self._path} tells times ({columns[0]}) and no steps: it has no column "
                    f"{lacking[0] + _WANDB_STEP!r}. Export it from W&B with the step as its X axis."
                )
            self._steps_of = stepped
        if any(column.endswith(("__MIN", "__MAX")) for column in self._columns):
            self._remarks.append("The columns __MIN and __MAX of W&B are left out.")


def _is_ours(lower: dict[str, str]) -> bool:
    return all(name in lower for name in POINT_COLUMNS)


def _is_tensorboard(lower: dict[str, str]) -> bool:
    return set(lower) == {"wall time", "step", "value"}


def _is_wandb(columns: Sequence[str]) -> bool:
    return (
        len(columns) > 1
        and columns[0].casefold() in (*_STEP_NAMES, *_WANDB_TIMES)
        and all(_WANDB_COLUMN.fullmatch(column) for column in columns[1:])
    )


def _guess(lower: dict[str, str], names: ColumnNames) -> ColumnNames:
    """Return `names`, and what the header tells for those that are empty."""

    def first(choices: Sequence[str]) -> str:
        return next((lower[name] for name in choices if name in lower), "")

    series = names.series or ("" if names.value or "value" not in lower else first(_SERIES_NAMES))
    return ColumnNames(
        step=names.step or first(_STEP_NAMES),
        time=names.time or first(_TIME_NAMES),
        series=series,
        value=names.value or (first(("value",)) if series else ""),
        run=names.run or first(_RUN_NAMES),
    )


class _CsvFile(NamedTuple):
    """An open CSV file."""

    lines: Iterator[list[str]]
    raw: io.BufferedReader
    delimiter: str
    size: int
    written: float
    """When it was written, in seconds since the epoch."""


@contextmanager
def _opened(path: Path) -> Iterator[_CsvFile]:
    """Open a CSV file; its lines raise CannotImport. Raises CannotImport, OSError."""
    with open_regular(path, follow_links=True) as raw:
        first = raw.readline(2**20).decode("utf-8-sig", "replace")
        raw.seek(0)
        if not first.strip():
            raise CannotImport(f"{path} is empty, or its first line is.")
        counts = {each: first.count(each) for each in (",", ";", "\t")}
        delimiter = max(counts, key=lambda each: counts[each])
        status = os.fstat(raw.fileno())
        with io.TextIOWrapper(raw, "utf-8-sig", newline="") as text:
            lines = _lines(text, path, delimiter)
            yield _CsvFile(lines, raw, delimiter, status.st_size, status.st_mtime)


def _lines(text: io.TextIOWrapper, path: Path, delimiter: str) -> Iterator[list[str]]:
    reader = csv.reader(text, delimiter=delimiter, strict=True)
    try:
        yield from reader
    except csv.Error as error:
        raise CannotImport(f"{path}, line {reader.line_num}: it is no CSV ({error}).") from error
    except UnicodeDecodeError as error:
        place = f"{path}, after line {reader.line_num}"
        raise CannotImport(f"{place}: it is no text in UTF-8.") from error


def _names(columns: list[str], path: Path) -> list[str]:
    names = [unsafe(column.strip()) for column in columns]
    if len(names) > MOST_COLUMNS:
        raise CannotImport(f"{path} has more than {MOST_COLUMNS:,} columns.")
    if len(names) < 2:
        raise CannotImport(
            f"{path} has one column only: a table needs the step and a value, with commas between."
        )
    doubled = next((name for name in names if name and names.count(name) > 1), "")
    if doubled:
        raise CannotImport(f"{path} has two columns {doubled!r}: give them different names.")
    return names


def _add_facts(file: Path, runs: dict[str, FoundRun]) -> None:
    """Add name, tags, note and settings from our table of runs."""
    with _opened(file) as opened:
        if opened.size > LARGEST_RUNS_FILE:
            raise CannotImport(f"{file} is larger than {LARGEST_RUNS_FILE // 2**20} MiB.")
        columns = [unsafe(column) for column in next(opened.lines)]
        for line in opened.lines:
            row = dict(zip(columns, map(unsafe, line), strict=False))
            if (run := runs.get(row.get("run", ""))) is None:
                continue
            run.name = readable(row.get("name", "") or run.name)
            run.tags = tags_of(readable(row["tags"])) if row.get("tags") else ()
            run.note = row.get("note", "")
            for column, text in row.items():
                if column.startswith(_DIRECTION) and len(run.directions) < MOST_SERIES:
                    run.directions |= {
                        readable(column.removeprefix(_DIRECTION)): each
                        for each in DIRECTIONS
                        if each == text
                    }
                elif column.startswith("setting.") and text:
                    run.set(column.removeprefix("setting."), setting_of(text))
            run.finish()


def setting_of(text: str) -> Setting:
    """Return the bool or number that `text` says, else the text."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:40]}…")


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:12])
    return f"{shown} and {len(names) - 12} more" if len(names) > 12 else shown
