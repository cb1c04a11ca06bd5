"""Sends a worker's events to the supervisor from a thread, so that no training step waits."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from engine.messages.channel import CLOSED, Alive, Channel, Flush, Message
from engine.messages.events import Metrics, Notice, Progress, WorkerEvent
from engine.messages.merged_metrics import MergedMetrics, count_points
from engine.runs.unrecorded_events import NumberedEvent

_log = logging.getLogger(__name__)

BEAT_SECONDS = 1.0
"""Longest time between two messages. The thread keeps to it also while the training waits."""

MOST_UNMERGED = 100
"""Messages that wait as they are. With more, points are merged and only the newest progress is
kept, so that no number of messages limits how long a supervisor may stall."""

MOST_POINTS = 2_000_000
"""Points that may wait, about 50 to 100 MB; if there are more, the oldest are dropped. As many are
kept that were sent and are not recorded yet; beyond that only the supervisor has the oldest."""


class _Waiting(NamedTuple):
    time: float
    message: WorkerEvent | Flush | MergedMetrics


class EventSender:
    """Takes events from any thread and sends them in order.

    It keeps each event until it is durable: the supervisor may be killed before that.
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
        self._points = 0
        self._dropped = 0
        self._sent: deque[NumberedEvent] = deque()
        self._sent_points = 0
        self._count = 0
        self._taken = 0
        """Messages that the supervisor has taken, without signs of life."""

        self._is_orphaned = False
        self._flushes_requested = self._flushes_done = 0
        self._closing = False
        self._thread = threading.Thread(target=self._send_all, daemon=True, name="event sender")
        self._thread.start()

    def put(self, event: WorkerEvent) -> None:
        """Add `event` to the waiting events, and return at once."""
        with self._changed:
            self._points += count_points(event)
            while self._points > MOST_POINTS and self._drop_oldest():
                pass
            if len(self._waiting) < MOST_UNMERGED or not self._merge(event):
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
        """Wait for the answer to a request; return whether it came.

        Give up after `seconds` in which the supervisor has taken no message. Without a supervisor,
        return at once.
        """
        with self._changed:
            taken = -1
            while taken != self._taken:
                taken = self._taken
                if self._changed.wait_for(
                    lambda: self._flushes_done >= number or self._is_orphaned, seconds
                ):
                    break
            return self._flushes_done >= number

    def flushed(self, number: int) -> None:
        """Note the supervisor's answer: what was put before request `number` is durable."""
        with self._changed:
            self._flushes_done = max(self._flushes_done, number)
            self._changed.notify_all()

    def recorded(self, number: int) -> None:
        """Note that the first `number` events that were sent are durable in the store."""
        with self._changed:
            while self._sent and self._sent[0].number <= number:
                self._forget_oldest()

    def orphaned(self) -> None:
        """Note that the supervisor is gone: all events are kept from now on, and none is sent."""
        with self._changed:
            self._is_orphaned = True
            self._changed.notify_all()

    def unrecorded(self) -> list[NumberedEvent]:
        """Return the events that may not be in the store, or be lost from it, in their order."""
        with self._changed:
            waiting = [
                (when, message.event() if isinstance(message, MergedMetrics) else message)
                for when, message in self._waiting
                if not isinstance(message, Flush)
            ]
            return [
                *self._sent,
                *(
                    NumberedEvent(number, when, event)
                    for number, (when, event) in enumerate(waiting, self._count + 1)
                ),
            ]

    def close(self, seconds: float) -> None:
        """Send the events that wait. Give up after `seconds` in which no message was taken."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        taken = -1
        while self._thread.is_alive() and taken != self._taken:
            taken = self._taken
            self._thread.join(seconds)

    def _merge(self, event: WorkerEvent) -> bool:
        """Let `event` become a part of the newest that wait; return False if it must stay alone."""
        newest, before = self._waiting[-1].message, self._waiting[-2].message
        match event:
            case Metrics():
                # Points may overtake a progress: it says nothing about them.
                merged = before if isinstance(newest, Progress) else newest
                if isinstance(merged, MergedMetrics) and merged.add(event):
                    return True
                merged = MergedMetrics()
                if merged.add(event):
                    self._waiting.append(_Waiting(time.time(), merged))
                    return True
            case Progress():
                if isinstance(newest, Progress):
                    self._waiting[-1] = _Waiting(time.time(), event)
                    return True
                if isinstance(before, Progress) and isinstance(newest, MergedMetrics):
                    del self._waiting[-2]
        return False

    def _drop_oldest(self) -> bool:
        """Drop the oldest points and return True, or return False if none wait.

        Other events change the state of the run, and are never dropped.
        """
        for index, waiting in enumerate(self._waiting):
            if count := count_points(waiting.message):
                del self._waiting[index]
                self._points -= count
                self._dropped += count
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
                message = self._next()
            if message is None and self._closing:
                return
            try:
                self._send(message or self._sign_of_life())
            except CLOSED:
                return  # the thread that reads commands ends this process
            self._taken += message is not None

    def _send(self, message: Message) -> None:
        try:
            self._channel.send(message)
        except UnicodeEncodeError:  # a name or a text of the user's program is none
            text = "Something with a name that is no valid UTF-8 was left out: rename it."
            notice = Notice(text, self._rank)
            with self._changed:
                if self._sent and self._sent[-1].event is message:
                    self._sent[-1] = NumberedEvent(self._count, time.time(), notice)
            self._channel.send(notice)

    def _next(self) -> Message | None:
        """Take the oldest message, and keep it if it is an event; None if none waits."""
        if self._dropped:
            dropped, self._dropped = self._dropped, 0
            _log.info("%d points were dropped: the supervisor reads too slowly", dropped)
            text = f"The supervisor was too slow: {dropped} points were dropped."
            self._waiting.appendleft(_Waiting(time.time(), Notice(text, self._rank)))
        if not self._waiting:
            return None
        when, message = self._waiting.popleft()
        if isinstance(message, Flush):
            return message
        if isinstance(message, MergedMetrics):
            message = message.event()
        points = count_points(message)
        self._points -= points
        self._sent_points += points
        self._count += 1
        self._sent.append(NumberedEvent(self._count, when, message))
        while self._sent_points > MOST_POINTS:
            self._forget_oldest()
        return message

    def _forget_oldest(self) -> None:
        self._sent_points -= count_points(self._sent.popleft().event)
