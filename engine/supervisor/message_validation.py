"""Checks the messages of workers: a recipe can write anything to the connection of its process."""

from __future__ import annotations

from engine.messages.channel import Alive, Flush, Message
from engine.messages.events import Metrics, WorkerEvent
from engine.messages.merged_metrics import is_storable


def is_valid(message: Message, rank: int, ranks: int) -> bool:
    """Return whether rank `rank` of `ranks` may send `message`, and its values can be stored."""
    if not 0 <= rank < ranks or not isinstance(message, Alive | Flush | WorkerEvent):
        return False
    if isinstance(message, Metrics):
        return is_storable(message)
    if getattr(message, "rank", rank) != rank:
        return False
    values = (getattr(message, name) for name in message.__struct_fields__)
    return all(value >= 0 for value in values if isinstance(value, int))
