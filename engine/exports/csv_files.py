"""Writes the tables of runs as CSV, with every digit of every number."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from engine.exports import tables
from engine.exports.run_source import as_text
from engine.exports.tables import Cell, Tick
from engine.runs.run_info import RunInfo
from engine.runs.table.csv_text import safe

POINTS, RUNS = "points.csv", "runs.csv"


def write_csv(folder: Path, infos: Sequence[RunInfo], tick: Tick) -> None:
    """Write `points.csv` and `runs.csv` into the existing `folder`.

    Raises OSError and sqlite3.Error.
    """
    with (folder / POINTS).open("x", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(tables.POINT_COLUMNS)
        for rows in tables.point_rows(infos, tick):
            series = safe(rows.series)
            writer.writerows(
                (rows.run, series, step, as_text(time), as_text(value))
                for step, time, value in zip(rows.steps, rows.times, rows.values, strict=True)
            )
    write_rows(folder / RUNS, tables.run_rows(infos))


def write_rows(file: Path, rows: Sequence[dict[str, Cell]]) -> None:
    """Write the new CSV `file` with a line for each of `rows`. Raises OSError."""
    columns = tables.columns_of(rows)
    with file.open("x", encoding="utf-8", newline="") as opened:
        writer = csv.writer(opened, lineterminator="\n")
        writer.writerow([safe(name) for name in columns])
        writer.writerows([_text(row.get(name)) for name in columns] for row in rows)


def _text(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return as_text(cell) if isinstance(cell, float) else safe(str(cell))
