"""A worker's events on their way to the supervisor: a thread sends, a training step never waits."""

from __future__ import annotations

import threading
from collections import deque

from engine.channel import CLOSED, Alive, Channel, Message
from engine.events import Event, Metrics, Notice

BEAT_SECONDS = 1.0
"""Longest silence of a worker whose interpreter runs, whatever its training waits for."""

MOST_WAITING = 1000
"""Events kept while the supervisor does not read; beyond it the oldest metrics are dropped."""


class Outbox:
    """Takes events from any thread and sends them in order."""

    def __init__(self, channel: Channel, rank: int) -> None:
        self._channel = channel
        self._rank = rank
        self._changed = threading.Condition()
        self._waiting: deque[Event] = deque()
        self._dropped = 0
        self._closing = False
        self._thread = threading.Thread(target=self._send_all, daemon=True, name="outbox")
        self._thread.start()

    def put(self, event: Event) -> None:
        """Queue `event`; returns at once."""
        with self._changed:
            if len(self._waiting) >= MOST_WAITING:
                self._make_room()
            self._waiting.append(event)
            self._changed.notify()

    def close(self, seconds: float) -> None:
        """Send what waits, for at most `seconds`."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(seconds)

    def _make_room(self) -> None:
        """Drop the oldest metrics; what changes a run's state is never dropped."""
        for waiting in self._waiting:
            if isinstance(waiting, Metrics):
                self._waiting.remove(waiting)
                self._dropped += 1
                return

    def _send_all(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closing, BEAT_SECONDS)
                batch: list[Message] = list(self._waiting)
                dropped = self._dropped
                self._waiting.clear()
                self._dropped = 0
            if dropped:
                text = f"The supervisor was too slow: {dropped} batches of points were dropped."
                batch.append(Notice(text, self._rank))
            if self._closing and not batch:
                return
            try:
                for message in batch or [Alive()]:
                    self._channel.send(message)
            except CLOSED:
                return  # the thread that reads commands ends this process
