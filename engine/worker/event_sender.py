"""Sends a worker's events to the supervisor from a thread, so that no training step waits."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

from engine.messages.channel import CLOSED, Alive, Channel, Flush, Message
from engine.messages.events import Event, Metrics, Notice

_log = logging.getLogger(__name__)

BEAT_SECONDS = 1.0
"""Longest time between two messages. The thread keeps to it also while the training waits."""

MOST_WAITING = 1000
"""Events that may wait for the supervisor; if there are more, the oldest metrics are dropped."""

MOST_POINTS = 2_000_000
"""Points that may wait in these events, about 150 MB; if there are more, the same happens."""


class EventSender:
    """Takes events from any thread and sends them in order."""

    def __init__(
        self, channel: Channel, rank: int, sign_of_life: Callable[[], Alive] = Alive
    ) -> None:
        """`sign_of_life` makes the message that is sent when no event waits."""
        self._channel = channel
        self._sign_of_life = sign_of_life
        self._rank = rank
        self._changed = threading.Condition()
        self._waiting: deque[Event | Flush] = deque()
        self._points = 0
        self._dropped = 0
        self._flushes_requested = self._flushes_done = 0
        self._closing = False
        self._thread = threading.Thread(target=self._send_all, daemon=True, name="event sender")
        self._thread.start()

    def put(self, event: Event) -> None:
        """Add `event` to the waiting events, and return at once."""
        with self._changed:
            self._points += _points(event)
            if len(self._waiting) >= MOST_WAITING:
                self._drop_oldest()
            while self._points > MOST_POINTS and self._drop_oldest():
                pass
            self._waiting.append(event)
            self._changed.notify_all()

    def request_flush(self) -> int:
        """Ask the supervisor to make all earlier events durable; return the request's number."""
        with self._changed:
            self._flushes_requested = number = self._flushes_requested + 1
            self._waiting.append(Flush(number))
            self._changed.notify_all()
        return number

    def wait_for_flush(self, number: int, seconds: float) -> bool:
        """Wait for the answer to a request, for at most `seconds`; return whether it came."""
        with self._changed:
            return self._changed.wait_for(lambda: self._flushes_done >= number, seconds)

    def flushed(self, number: int) -> None:
        """Note the supervisor's answer: what was put before request `number` is durable."""
        with self._changed:
            self._flushes_done = max(self._flushes_done, number)
            self._changed.notify_all()

    def close(self, seconds: float) -> None:
        """Send the events that wait, for at most `seconds`."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(seconds)

    def _drop_oldest(self) -> bool:
        """Drop the oldest metrics and return True, or return False if none wait.

        Other events change the state of the run, and are never dropped.
        """
        for index, waiting in enumerate(self._waiting):
            if isinstance(waiting, Metrics):
                del self._waiting[index]
                self._points -= _points(waiting)
                self._dropped += 1
                return True
        return False

    def _send_all(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closing, BEAT_SECONDS)
                batch: list[Message] = list(self._waiting)
                dropped = self._dropped
                self._waiting.clear()
                self._points = 0
                self._dropped = 0
            if dropped:
                _log.info("%d events were dropped: the supervisor reads too slowly", dropped)
                text = f"The supervisor was too slow: {dropped} batches of points were dropped."
                batch.append(Notice(text, self._rank))
            if self._closing and not batch:
                return
            try:
                for message in batch or [self._sign_of_life()]:
                    self._channel.send(message)
            except CLOSED:
                return  # the thread that reads commands ends this process


def _points(event: Event | Flush) -> int:
    return sum(len(points.steps) for points in event.points) if isinstance(event, Metrics) else 0
