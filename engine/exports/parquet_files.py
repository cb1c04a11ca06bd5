"""Writes the tables of runs as Parquet files; needs the package pyarrow, which is optional."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.exports import tables
from engine.exports.tables import Cell, Tick
from engine.runs.run_info import RunInfo

POINTS, RUNS = "points.parquet", "runs.parquet"
PACKAGE = "pyarrow"


def write_parquet(folder: Path, infos: Sequence[RunInfo], tick: Tick) -> None:
    """Write `points.parquet` and `runs.parquet` into the existing `folder`.

    Raises ImportError without pyarrow, OSError and sqlite3.Error.
    """
    import pyarrow
    from pyarrow import parquet

    names = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    kinds = (names, names, pyarrow.int64(), pyarrow.float64(), pyarrow.float64())
    schema = pyarrow.schema(list(zip(tables.POINT_COLUMNS, kinds, strict=True)))
    with parquet.ParquetWriter(folder / POINTS, schema) as writer:
        for rows in tables.point_rows(infos, tick):
            count = len(rows.steps)
            texts = [pyarrow.array([text] * count, names) for text in (rows.run, rows.series)]
            numbers = [
                pyarrow.array(column, kind)
                for column, kind in zip(
                    (rows.steps, rows.times, rows.values), kinds[2:], strict=True
                )
            ]
            writer.write_table(pyarrow.Table.from_arrays([*texts, *numbers], schema=schema))
    found = tables.run_rows(infos)
    arrays = {
        name: pyarrow.array(*_column([row.get(name) for row in found], pyarrow))
        for name in tables.columns_of(found)
    }
    parquet.write_table(pyarrow.table(arrays), folder / RUNS)


def _column(cells: list[Cell], pyarrow: Any) -> tuple[list[Cell], Any]:
    """Return the cells of a column in one type, and that type: runs may differ in it."""
    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds <= {bool}:
        return cells, pyarrow.bool_()
    if kinds <= {int}:
        return cells, pyarrow.int64()
    if kinds <= {int, float}:
        return [None if cell is None else float(cell) for cell in cells], pyarrow.float64()
    return [None if cell is None else str(cell) for cell in cells], pyarrow.string()
