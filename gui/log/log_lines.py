"""Formats the lines of the log, and finds those with an error."""

from __future__ import annotations

import re
from typing import NamedTuple

from engine.runs.store.store_reader import StoredEvent
from engine.system import units
from gui.log.event_text import Level, event_text

OUTPUT = "OUT"
_NO_TIME = " " * len("14:02:11.093")
_LEVEL_WIDTH = max(len(level) for level in Level)
PREFIX = re.compile(rf"([\d:.]{{12}}| {{12}}) ({'|'.join(Level)}|{OUTPUT}) *( rank \d+| {{7}})")
"""Its groups: the time, the level, the rank."""

_ERROR = re.compile(
    r"^Traceback \(most recent call last\)|\b[A-Z]\w*(?:Error|Exception)\b|^\w*Error\b"
    r"|\b(?:ERROR|FATAL|CRITICAL)\b|^Fatal |[Ss]egmentation fault"
)
"""Matches output of a failing worker: words of Python, of log levels and of the C library. It does
not match the mark E of TensorFlow, which prints such lines at every start."""


class Line(NamedTuple):
    """A line of the log, and its rank."""

    rank: int
    """-1: the supervisor."""

    text: str
    level: Level | None = None
    """How serious the event is; None: it is the output of a worker."""

    @property
    def is_event(self) -> bool:
        """Whether it is an event, not the output of a worker."""
        return self.level is not None


def output_line(rank: int, text: str) -> Line:
    """Return the line for output of worker `rank`, whose time is unknown."""
    level = Level.ERROR if _ERROR.search(text) else OUTPUT
    return _line(_NO_TIME, level, rank, text)


def event_line(stored: StoredEvent) -> Line:
    """Return the line for an event."""
    described = event_text(stored.event)
    line = _line(
        units.time_of_day(stored.time, milliseconds=True),
        described.level,
        described.rank,
        described.text,
    )
    return line._replace(level=described.level)


def is_error(line: str) -> bool:
    """Whether a line of the log has the level ERROR."""
    match = PREFIX.match(line)
    return bool(match and match[2] == Level.ERROR)


def _line(time: str, level: str, rank: int, text: str) -> Line:
    owner = f"rank {rank}" if rank >= 0 else ""
    return Line(rank, f"{time} {level:{_LEVEL_WIDTH}} {owner:6}  {text}")
