"""What the table shows: rows, columns and groups, computed without widgets, on any thread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from engine.runs.run_info import RunInfo
from engine.runs.table.arrangement import Group, Order, Statistics, grouped, sorted_runs, statistics
from engine.runs.table.columns import BUT_SEED, Column, Kind, Part, Value, columns_of
from engine.runs.table.filter import compile_filter
from engine.runs.table.grammar import FilterError
from engine.spec.metric_direction import merged_overrides, primary_metric

CURVE = "curve("
"""How the names of the columns with a small curve begin."""

_USUAL = ("name", "id", "state", "strategy", "devices", "learning_rate", "batch_size")
_USUAL_END = ("time", "tags")
_MOST_VALUES = 3


class Query(NamedTuple):
    """What the user has chosen."""

    filter: str = ""
    valid_filter: str = ""
    """The last filter that could be read, which counts while the newer one cannot."""

    sort: str = ""
    descending: bool = False
    group: str = ""
    """Name of a column; empty: no groups."""

    folded: frozenset[Value] = frozenset()
    """The groups whose runs are not shown."""

    columns: tuple[str, ...] | None = None
    """None: the usual ones."""


class Summary(NamedTuple):
    """What a group shows in one column."""

    statistics: Statistics | None = None
    values: tuple[Value, ...] = ()
    """Of other columns, at most a few different ones."""


class GroupRow(NamedTuple):
    """The line above the runs of a group."""

    value: Value
    title: str
    runs: tuple[RunInfo, ...]
    summaries: Mapping[str, Summary]
    is_folded: bool

    @property
    def id(self) -> str:
        """Distinguishes it from other rows."""
        return f"group {self.value!r}"


Row = RunInfo | GroupRow


class Arranged(NamedTuple):
    """The answer to a query."""

    rows: Sequence[Row]
    shown: Sequence[RunInfo]
    """Every run that passes the filter, in the order of the table, also of folded groups."""

    total: int
    columns: Mapping[str, Column]
    visible: tuple[Column, ...]
    ranges: Mapping[str, Statistics]
    """Of the visible metrics, over the shown runs."""

    problem: FilterError | None = None
    filter: str = ""
    """The filter that was applied."""


def arrange(infos: Sequence[RunInfo], query: Query, device_names: Mapping[str, str]) -> Arranged:
    """Filter, sort and group the runs."""
    columns = columns_of(infos, device_names)
    columns |= _curve_columns(columns)
    problem, text = None, query.filter
    try:
        passes = compile_filter(text, columns)
    except FilterError as error:
        problem, text = error, query.valid_filter
        try:
            passes = compile_filter(text, columns)
        except FilterError:  # its runs are gone
            passes, text = compile_filter("", columns), ""
    found = [info for info in infos if passes(info)]
    order = columns.get(query.sort)
    found = sorted_runs(found, Order(order, query.descending) if order else None)
    names = query.columns if query.columns is not None else usual_columns(infos)
    visible = tuple(columns[name] for name in names if name in columns)
    metrics = [column for column in visible if column.metric and not is_curve(column)]
    ranges = {each.name: known for each in metrics if (known := statistics(found, each))}
    rows: list[Row] = [*found]
    group = columns.get(query.group)
    if group is not None:
        rows, found = _grouped_rows(grouped(found, group), group, visible, query.folded)
    return Arranged(rows, found, len(infos), columns, visible, ranges, problem, text)


def usual_columns(infos: Sequence[RunInfo]) -> tuple[str, ...]:
    """Return the columns that are shown before the user has chosen any."""
    counts: dict[str, int] = {}
    directions = merged_overrides(info.status.metric_directions for info in infos[:200])
    for metrics, count in Counter(tuple(info.best) for info in infos if info.best).items():
        name = primary_metric(metrics, directions)
        counts[name] = counts.get(name, 0) + count
    primary = max(counts, key=lambda name: counts[name], default="")
    metric = (f"best({primary})",) if primary else ()
    return (*_USUAL, *metric, f"{CURVE}train/loss)", *_USUAL_END)


def group_heading(column: Column) -> str:
    """Return what stands before the value of a group; nothing before a list of settings."""
    return "" if column.name == BUT_SEED else column.title


def is_curve(column: Column) -> bool:
    """Whether the cells of a column hold small curves."""
    return column.name.startswith(CURVE)


def _curve_columns(columns: Mapping[str, Column]) -> dict[str, Column]:
    """Return a column with small curves for each metric; it is sorted by the last value."""
    return {
        f"{CURVE}{name})": column._replace(name=f"{CURVE}{name})")
        for name, column in columns.items()
        if column.part is Part.LAST
    }


def _grouped_rows(
    groups: Sequence[Group],
    column: Column,
    visible: Sequence[Column],
    folded: frozenset[Value],
) -> tuple[list[Row], list[RunInfo]]:
    rows: list[Row] = []
    found: dict[str, RunInfo] = {}  # a run with several tags is in several groups
    for group in groups:
        is_folded = group.value in folded
        summaries = {each.name: _summary(group.runs, each) for each in visible}
        rows.append(
            GroupRow(group.value, group_heading(column), tuple(group.runs), summaries, is_folded)
        )
        found |= {info.id: info for info in group.runs}
        if not is_folded:
            rows += group.runs
    return rows, list(found.values())


def _summary(infos: Sequence[RunInfo], column: Column) -> Summary:
    if is_curve(column):
        return Summary()
    if column.kind in (Kind.NUMBER, Kind.DURATION, Kind.SETTING):
        known = statistics(infos, column)
        if known is not None:
            return Summary(known)
    values: dict[Value, None] = {}
    for info in infos:
        values[column.read(info)] = None
        if len(values) > _MOST_VALUES:
            break
    return Summary(None, tuple(values))
