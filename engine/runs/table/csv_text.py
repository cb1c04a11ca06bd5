"""The table as CSV: exact values, and no cell that a spreadsheet takes for a formula."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from engine.runs.run_info import RunInfo
from engine.runs.table.columns import Column, Kind, Value

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def csv_of(infos: Iterable[RunInfo], columns: Sequence[Column]) -> str:
    """Return one line for each run under the names of the columns.

    Numbers have all their digits, dates are in UTC, durations in seconds. A text that begins like a
    formula gets an apostrophe before it, as spreadsheets write a text themselves.
    """
    lines = io.StringIO()
    write = csv.writer(lines, lineterminator="\n")
    write.writerow([safe(column.name) for column in columns])
    for info in infos:
        write.writerow([_cell(column.read(info), column.kind) for column in columns])
    return lines.getvalue()


def safe(text: str) -> str:
    """Return a text that a spreadsheet does not compute."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def unsafe(text: str) -> str:
    """Return the text that `safe` has made `text` of."""
    return text[1:] if text[:1] == "'" and text[1:].startswith(_FORMULA) else text


def _cell(value: Value, kind: Kind) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case int() | float():
            return _date(value) if kind is Kind.DATE else repr(value)
        case tuple():
            return safe(", ".join(value))
        case _:
            return safe(value)


def _date(moment: float) -> str:
    """Return the date in ISO 8601; the number itself where no calendar has it."""
    try:
        return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return repr(moment)
