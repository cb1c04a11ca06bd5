"""What a worker may say: a recipe can write to all that its process has open."""

from __future__ import annotations

import math

from engine.messages.channel import Alive, Flush, Message
from engine.messages.events import Metrics, Points, WorkerEvent

_LARGEST = 2**63 - 1
"""Of the numbers that the store can hold."""


def is_valid(message: Message, rank: int, ranks: int) -> bool:
    """Whether rank `rank` of `ranks` may say `message`, and it makes enough sense to be kept."""
    if not 0 <= rank < ranks or not isinstance(message, Alive | Flush | WorkerEvent):
        return False
    if isinstance(message, Metrics):
        times = math.isfinite(message.begin) and math.isfinite(message.end)
        return times and all(map(_is_whole, message.points))
    if getattr(message, "rank", rank) != rank:
        return False
    values = (getattr(message, name) for name in message.__struct_fields__)
    return all(value >= 0 for value in values if isinstance(value, int))  # all of them count


def _is_whole(points: Points) -> bool:
    steps = points.steps
    if len(steps) != len(points.values):
        return False
    return not steps or (min(steps) >= 0 and max(steps) <= _LARGEST)
