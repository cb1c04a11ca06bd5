"""Checks the messages of workers: a recipe can write anything to the connection of its process."""

from __future__ import annotations

import math

from engine.messages.channel import Alive, Flush, Message
from engine.messages.events import Metrics, Points, WorkerEvent

_LARGEST = 2**63 - 1
"""The largest integer that SQLite can store."""


def is_valid(message: Message, rank: int, ranks: int) -> bool:
    """Return whether rank `rank` of `ranks` may send `message`, and its values can be stored."""
    if not 0 <= rank < ranks or not isinstance(message, Alive | Flush | WorkerEvent):
        return False
    if isinstance(message, Metrics):
        are_times_finite = math.isfinite(message.begin) and math.isfinite(message.end)
        return are_times_finite and all(map(_are_valid, message.points))
    if getattr(message, "rank", rank) != rank:
        return False
    values = (getattr(message, name) for name in message.__struct_fields__)
    return all(value >= 0 for value in values if isinstance(value, int))


def _are_valid(points: Points) -> bool:
    steps = points.steps
    if len(steps) != len(points.values):
        return False
    return not steps or (min(steps) >= 0 and max(steps) <= _LARGEST)
