"""The columns of the table of a race."""

from __future__ import annotations

from enum import IntEnum, auto


class Column(IntEnum):
    """From left to right."""

    NAME = 0
    RATE = auto()
    MEMORY = auto()
    EFFICIENCY = auto()
    FIRST_STEP = auto()
    JOULES = auto()
    SHARES = auto()
