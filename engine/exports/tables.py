"""The two tables of runs: one row for each point, and one row for each run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from engine.exports import run_source
from engine.exports.run_source import RunSource
from engine.runs.run_info import RunInfo
from engine.spec.field_info import Setting

POINT_COLUMNS = ("run", "series", "step", "unix_time", "value")
"""The id of the run, the name of the series, and the point."""

Cell = Setting | None
Tick = Callable[[int], None]
"""Called with the number of points that were written; it may raise to end the export."""

ROWS_AT_ONCE = 20_000


class Rows(NamedTuple):
    """Some points of one series of a run."""

    run: str
    series: str
    steps: list[int]
    times: list[float]
    values: list[float]


def point_rows(infos: Sequence[RunInfo], tick: Tick) -> Iterator[Rows]:
    """Yield all points of all runs, run by run and series by series. Raises sqlite3.Error."""
    for info in infos:
        with RunSource(info) as source:
            if source.reader is None:
                continue
            for series in source.counts():
                for batch in source.reader.batches(series, ROWS_AT_ONCE):
                    steps = batch.step.astype("int64").tolist()
                    times, values = batch.time.tolist(), batch.value.tolist()
                    yield Rows(info.id, series, steps, times, values)
                    tick(len(steps))


def run_rows(infos: Sequence[RunInfo]) -> list[dict[str, Cell]]:
    """Return a row by column for each run; a column that a run does not have is missing there.

    The settings have the prefix `setting.`, and figures that of the figure: `last.train/loss`,
    `best.validation/accuracy`, `best_step.validation/accuracy`. `direction.novelty` is `min` or
    `max` where the recipe or the user chose it. Raises sqlite3.Error.
    """
    found = []
    for info in infos:
        with RunSource(info) as source:
            found.append(_run_row(source))
    return found


def columns_of(rows: Sequence[dict[str, Cell]]) -> list[str]:
    """Return the columns of all `rows`: those of the first row first."""
    return list(dict.fromkeys(name for row in rows for name in row))


def _run_row(source: RunSource) -> dict[str, Cell]:
    info, status = source.info, source.info.status
    row: dict[str, Cell] = {
        "run": info.id,
        "name": info.name,
        "state": str(info.state),
        "reason": info.reason,
        "tags": ", ".join(info.notes.tags),
        "note": info.notes.note,
        "source": run_source.source_of(info.spec),
        "imported_from": info.spec.imported_from,
        "strategy": info.spec.strategy,
        "devices": ", ".join(info.spec.devices),
        "started_unix_time": status.started or None,
        "seconds": run_source.seconds_of(info, time.time()),
        "epoch": status.epoch,
        "step": status.step,
        "parameters": status.parameters or None,
    }
    row |= {f"setting.{key}": value for key, value in run_source.settings_of(info.spec).items()}
    row |= {f"direction.{name}": each for name, each in sorted(status.metric_directions.items())}
    row |= {f"last.{series}": value for series, value in source.last().items()}
    for series, best in source.best().items():
        row |= {f"best.{series}": best.value, f"best_step.{series}": best.step}
    return row
