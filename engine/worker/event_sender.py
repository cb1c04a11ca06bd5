"""Sends a worker's events to the supervisor from a thread, so that no training step waits."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from engine.messages.channel import CLOSED, Alive, Channel, Flush, Message
from engine.messages.events import Metrics, Notice, WorkerEvent
from engine.runs.unrecorded_events import NumberedEvent

_log = logging.getLogger(__name__)

BEAT_SECONDS = 1.0
"""Longest time between two messages. The thread keeps to it also while the training waits."""

MOST_WAITING = 1000
"""Events that may wait for the supervisor; if there are more, the oldest metrics are dropped."""

MOST_POINTS = 2_000_000
"""Points that may wait in these events, about 150 MB; if there are more, the same happens. As many
are kept that were sent and are not recorded yet; beyond that only the supervisor has the oldest."""


class _Waiting(NamedTuple):
    time: float
    message: WorkerEvent | Flush


class EventSender:
    """Takes events from any thread and sends them in order.

    It keeps each event until the supervisor has recorded it, which may be killed before that.
    """

    def __init__(
        self, channel: Channel, rank: int, sign_of_life: Callable[[], Alive] = Alive
    ) -> None:
        """`sign_of_life` makes the message that is sent when no event waits."""
        self._channel = channel
        self._sign_of_life = sign_of_life
        self._rank = rank
        self._changed = threading.Condition()
        self._waiting: deque[_Waiting] = deque()
        self._sent: deque[NumberedEvent] = deque()
        self._sent_points = 0
        self._count = 0
        self._is_orphaned = False
        self._points = 0
        self._dropped = 0
        self._flushes_requested = self._flushes_done = 0
        self._closing = False
        self._thread = threading.Thread(target=self._send_all, daemon=True, name="event sender")
        self._thread.start()

    def put(self, event: WorkerEvent) -> None:
        """Add `event` to the waiting events, and return at once."""
        with self._changed:
            self._points += _points(event)
            if len(self._waiting) >= MOST_WAITING:
                self._drop_oldest()
            while self._points > MOST_POINTS and self._drop_oldest():
                pass
            self._waiting.append(_Waiting(time.time(), event))
            self._changed.notify_all()

    def request_flush(self) -> int:
        """Ask the supervisor to make all earlier events durable; return the request's number."""
        with self._changed:
            self._flushes_requested = number = self._flushes_requested + 1
            self._waiting.append(_Waiting(time.time(), Flush(number)))
            self._changed.notify_all()
        return number

    def wait_for_flush(self, number: int, seconds: float) -> bool:
        """Wait for the answer to a request, for at most `seconds`; return whether it came.

        Without a supervisor, return at once.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: self._flushes_done >= number or self._is_orphaned, seconds
            )
            return self._flushes_done >= number

    def flushed(self, number: int) -> None:
        """Note the supervisor's answer: what was put before request `number` is durable."""
        with self._changed:
            self._flushes_done = max(self._flushes_done, number)
            self._changed.notify_all()

    def recorded(self, number: int) -> None:
        """Note that the first `number` events that were sent are in the store."""
        with self._changed:
            while self._sent and self._sent[0].number <= number:
                self._forget_oldest()

    def orphaned(self) -> None:
        """Note that the supervisor is gone: all events are kept from now on, and none is sent."""
        with self._changed:
            self._is_orphaned = True
            self._changed.notify_all()

    def unrecorded(self) -> list[NumberedEvent]:
        """Return the events that may not be in the store, in their order."""
        with self._changed:
            waiting = [
                (when, message) for when, message in self._waiting if not isinstance(message, Flush)
            ]
            return [
                *self._sent,
                *(
                    NumberedEvent(number, when, event)
                    for number, (when, event) in enumerate(waiting, self._count + 1)
                ),
            ]

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
            if isinstance(waiting.message, Metrics):
                del self._waiting[index]
                self._points -= _points(waiting.message)
                self._dropped += 1
                return True
        return False

    def _send_all(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda: self._waiting or self._closing or self._is_orphaned, BEAT_SECONDS
                )
                if self._is_orphaned:
                    return
                if dropped := self._dropped:
                    self._dropped = 0
                    _log.info("%d events were dropped: the supervisor reads too slowly", dropped)
                    text = f"The supervisor was too slow: {dropped} batches of points were dropped."
                    self._waiting.append(_Waiting(time.time(), Notice(text, self._rank)))
                batch: list[Message] = [message for _, message in self._waiting]
                self._keep_waiting()
            if self._closing and not batch:
                return
            try:
                for message in batch or [self._sign_of_life()]:
                    self._channel.send(message)
            except CLOSED:
                return  # the thread that reads commands ends this process

    def _keep_waiting(self) -> None:
        """Number the events that wait, before they are sent, and keep them."""
        for when, message in self._waiting:
            if not isinstance(message, Flush):
                self._count += 1
                self._sent.append(NumberedEvent(self._count, when, message))
                self._sent_points += _points(message)
        self._waiting.clear()
        self._points = 0
        while self._sent_points > MOST_POINTS:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        self._sent_points -= _points(self._sent.popleft().event)


def _points(event: WorkerEvent | Flush) -> int:
    return sum(len(points.steps) for points in event.points) if isinstance(event, Metrics) else 0
