"""What the options of `runs` choose: a filter, an order, columns, and CSV."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from engine.cli.output import Refused, printable, show_table
from engine.client import RunInfo
from engine.runs.table.arrangement import Order, sorted_runs
from engine.runs.table.cell_text import cell_text
from engine.runs.table.columns import Column, columns_of
from engine.runs.table.csv_text import csv_of
from engine.runs.table.filter import compile_filter
from engine.runs.table.grammar import FilterError
from engine.runs.table.names import UnknownName, find_column

_USUAL = "id,name,state,strategy,devices,learning_rate,batch_size,epoch,time,created,tags"
_BEST = "best("


class RunQuery(NamedTuple):
    """The options of `runs`; all empty: the plain list."""

    filter: str = ""
    sort: str = ""
    """Name of a column; a minus before it: the largest first."""

    columns: str = ""
    """Names of columns, with commas between them."""

    csv: bool = False

    @property
    def has_columns(self) -> bool:
        """Whether the runs are printed with chosen columns."""
        return bool(self.columns or self.csv)


def select(infos: Sequence[RunInfo], query: RunQuery, machine: str) -> list[RunInfo]:
    """Return the runs of `machine` that pass the filter, sorted. Raises Refused."""
    columns = columns_of(infos)
    try:
        passes = compile_filter(query.filter, columns, here=machine)
    except FilterError as error:
        raise Refused(f"--filter cannot be read. {error}\n{error.pointing(query.filter)}") from None
    found = [info for info in infos if passes(info)]
    if query.sort:
        column = _find(query.sort.removeprefix("-"), columns, "--sort")
        found = sorted_runs(found, Order(column, descending=query.sort.startswith("-")))
    return found


def print_table(infos: Sequence[RunInfo], every: Sequence[RunInfo], query: RunQuery) -> None:
    """Print the chosen columns of the runs; `every` are all runs. Raises Refused."""
    columns = columns_of(every)
    if query.columns:
        names = query.columns.split(",")
        chosen = [_find(name.strip(), columns, "--columns") for name in names]
    elif query.csv:
        chosen = list(columns.values())
    else:
        chosen = [columns[name] for name in _USUAL.split(",")]
        chosen += [column for name, column in columns.items() if name.startswith(_BEST)]
    if query.csv:
        text = csv_of(infos, chosen)
        print(printable(text) if sys.stdout.isatty() else text, end="")
        return
    rows = [[cell_text(column.read(info), column.kind) for column in chosen] for info in infos]
    show_table([column.name for column in chosen], rows)


def _find(name: str, columns: Mapping[str, Column], option: str) -> Column:
    is_best = name.startswith(_BEST) and name.endswith(")")
    try:
        return find_column(name[len(_BEST) : -1] if is_best else name, columns, best=is_best)
    except UnknownName as error:
        raise Refused(f"{option}: {error}") from None
