"""How a line of the log is written, and which lines speak of an error."""

from __future__ import annotations

import re
from typing import NamedTuple

from engine.runs.store_reader import StoredEvent
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
"""What a worker prints when something breaks: words of Python, of log levels, of the C library.
The lines that TensorFlow marks with E are not meant: it prints some at every start."""


class Line(NamedTuple):
    """A line of the log, and whose it is."""

    rank: int
    """-1: the supervisor's."""

    text: str
    is_event: bool = False
    """The engine's words, not a worker's."""


def output_line(rank: int, text: str) -> Line:
    """What worker `rank` printed; when it did is not known."""
    level = Level.ERROR if _ERROR.search(text) else OUTPUT
    return _line(_NO_TIME, level, rank, text)


def event_line(stored: StoredEvent) -> Line:
    """An event in words."""
    described = event_text(stored.event)
    line = _line(
        units.time_of_day(stored.time, milliseconds=True),
        described.level,
        described.rank,
        described.text,
    )
    return line._replace(is_event=True)


def is_error(line: str) -> bool:
    """Whether the line, as it is shown, speaks of an error."""
    match = PREFIX.match(line)
    return bool(match and match[2] == Level.ERROR)


def _line(time: str, level: str, rank: int, text: str) -> Line:
    who = f"rank {rank}" if rank >= 0 else ""
    return Line(rank, f"{time} {level:{_LEVEL_WIDTH}} {who:6}  {text}")
