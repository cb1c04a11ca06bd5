"""The texts of cells, headers and groups."""

from __future__ import annotations

import math

from engine.runs.run_info import RunInfo
from engine.runs.run_state import RunState
from engine.runs.series_names import series_name, series_title
from engine.runs.table.arrangement import Statistics
from engine.runs.table.cell_text import NOTHING, cell_text, number_text
from engine.runs.table.columns import IMPORTED, Column, Kind, Part, Value, number_of
from engine.system import units
from gui.bridge.machines.machines import is_elsewhere
from gui.runs_table.arrangement import GroupRow, Row, is_curve
from gui.style import formatting
from gui.style.state_style import IMPORTED_NAME, state_name

_COMMIT_LETTERS = 10


def header_text(column: Column) -> str:
    """Return the title of a column: `Best val accuracy`, `Learning rate`."""
    if not column.metric:
        return column.title
    if column.part is Part.BEST:
        return f"Best {series_name(column.metric)}"
    return series_title(column.metric)


def text_of(column: Column, row: Row) -> str:
    """Return the text of a cell."""
    return group_text(column, row) if isinstance(row, GroupRow) else run_text(column, row)


def run_text(column: Column, info: RunInfo) -> str:
    """Return the text of a run's cell. Runs of other machines have the numbers of those here."""
    if column.name == "id" and is_elsewhere(info):
        return info.id
    return value_text(column, column.read(info))


def value_text(column: Column, value: Value) -> str:
    """Return a value as it stands in its column."""
    number = number_of(value)
    if column.name == "state":
        return IMPORTED_NAME if value == IMPORTED else state_name(RunState(str(value)))
    if number is None:
        if isinstance(value, bool):
            return "yes" if value else "no"
        text = cell_text(value, column.kind)
        return text[:_COMMIT_LETTERS] if column.name == "commit" else text
    if column.metric:
        return formatting.metric(column.metric, number)
    if column.kind is Kind.DATE:
        return units.date_or_time(number)
    if column.name == "id":
        return f"#{int(number)}"
    return cell_text(value, column.kind)


def is_best_shown(column: Column, value: float, shown: Statistics | None) -> bool:
    """Whether `value` of a metric stands there as the best of the `shown` ones does: nobody can
    tell apart what is shown alike. If all of them are, none is the best."""
    if shown is None or column.lower_is_better is None or not math.isfinite(value):
        return False
    least, most = value_text(column, shown.least), value_text(column, shown.most)
    best = least if column.lower_is_better else most
    return least != most and value_text(column, value) == best


def exact_text(column: Column, info: RunInfo) -> str:
    """Return the whole value, for a tooltip."""
    value = column.read(info)
    number = number_of(value)
    if column.name == "commit":
        return str(value or NOTHING)
    if number is None or column.kind in (Kind.DATE, Kind.DURATION):
        return run_text(column, info)
    return repr(value)


def group_title(row: GroupRow) -> str:
    """Return what the group has in common, and how many runs it has."""
    text = f"{group_name(row.title, row.value)} · {len(row.runs):,} runs"
    if len(row.runs) == 1:
        text = f"{group_name(row.title, row.value)} · 1 run"
    return text


def group_name(title: str, value: Value) -> str:
    """Return what a group has in common: `value`, in the column with this title; empty: the value
    says it."""
    text = NOTHING if value is None else cell_text(value, Kind.SETTING)
    if not title:
        return text
    return f"{title} {text}"


def group_text(column: Column, row: GroupRow) -> str:
    """Return what a group shows: the mean of a metric with its deviation, or what its runs have."""
    summary = row.summaries.get(column.name)
    if summary is None or is_curve(column):
        return ""
    known = summary.statistics
    if known is None:
        if len(summary.values) == 1:
            text = value_text(column, summary.values[0])
            return "" if text == NOTHING else text
        return "…" if summary.values else ""
    if column.metric:
        mean = value_text(column, known.mean)
        if known.numbers < 2:
            return mean
        return f"mean {mean} ±{_deviation(column, known.deviation, mean)}"
    if column.name == "id":
        return run_text(column, row.runs[0]) if len(row.runs) == 1 else ""
    if known.least == known.most:
        return value_text(column, known.least)
    if column.name in ("created", "ended"):
        return ""
    if column.kind is Kind.DURATION:
        return f"mean {units.steady_duration(known.mean)}"
    return f"{number_text(known.least)} … {number_text(known.most)}"


def _deviation(column: Column, deviation: float, mean: str) -> str:
    if mean.endswith(" %"):
        return f"{100 * deviation:.1f}"
    return f"{deviation:.2g}"
