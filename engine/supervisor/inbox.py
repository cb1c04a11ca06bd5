"""The one queue of a supervisor: connections, messages, exits, measurements and signals."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from engine.diagnosis.process_memory import Measurement
from engine.messages.channel import CLOSED, Channel, Hello, Message, StatusAnswer, StatusQuestion
from engine.telemetry.snapshot import Snapshot


class Connected(NamedTuple):
    """A client has authenticated and sent its Hello."""

    hello: Hello
    channel: Channel


class MessageReceived(NamedTuple):
    """A message from a worker (its rank) or from a window or command line (-1)."""

    rank: int
    channel: Channel
    message: Message


class Disconnected(NamedTuple):
    """A connection ended, and all its messages were received."""

    rank: int


class WorkerLaunched(NamedTuple):
    """The process of a worker runs."""

    rank: int
    pid: int


class LaunchedCold(NamedTuple):
    """Workers could not be forked from a template, so that they import their framework."""

    reason: str
    """A clause without a full stop."""


class LaunchFailed(NamedTuple):
    """A worker could not be started; the workers before it run."""

    reason: str


class LaunchEnded(NamedTuple):
    """No more workers will be started: all of them were, or one failed, or the attempt ended."""


class WorkerExited(NamedTuple):
    """The process of a worker has ended."""

    rank: int
    code: int


class MachineLost(NamedTuple):
    """Another machine of the run does not answer any more."""

    machine: str
    why: str
    """A clause."""


class SnapshotReceived(NamedTuple):
    """The telemetry helper has taken a snapshot of the devices."""

    snapshot: Snapshot
    machine: str = ""
    """Whose devices these are; empty: those of this machine."""


class MemoryMeasured(NamedTuple):
    """The processes of a run on the CPU were measured."""

    measurement: Measurement
    machine: str = ""
    """Where they run; empty: on this machine."""


class SignalReceived(NamedTuple):
    """The system asks the supervisor itself to end (SIGTERM, SIGINT, SIGHUP)."""

    signal: str


class Told(NamedTuple):
    """A thread of the supervisor has something to say, in a sentence."""

    text: str


Launch = WorkerLaunched | LaunchedCold | LaunchFailed | LaunchEnded

InboxItem = (
    Connected
    | MessageReceived
    | Disconnected
    | Launch
    | WorkerExited
    | MachineLost
    | SnapshotReceived
    | MemoryMeasured
    | SignalReceived
    | Told
)

MOST_UNREAD = 64
"""Messages of all workers that may wait for the main thread. While there are more, the supervisor
does not read, and each worker keeps its messages, up to a limit of its own. Windows and command
lines have as many places of their own."""


LONGEST_WAIT = 0.2
"""Seconds after which a command or a signal overtakes what the workers have sent: after a stall,
that may take seconds to store."""


class Inbox:
    """Filled by a thread per connection and per process, emptied by the main thread."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[InboxItem | None] = queue.SimpleQueue()
        """None stands for the oldest urgent item."""

        self._urgent: deque[tuple[float, InboxItem]] = deque()
        """With the time at which it overtakes the others."""

        self._places = threading.Semaphore(MOST_UNREAD)
        self._client_places = threading.Semaphore(MOST_UNREAD)
        self._turned = time.monotonic()
        self.answer_status: Callable[[float], StatusAnswer] | None = None
        """Makes the answer to a StatusQuestion from the seconds since the last turn, from any
        thread; None: none is given yet."""

    def put(self, item: InboxItem) -> None:
        """Add an item; called from any thread, and by the handlers of signals."""
        if _is_urgent(item):
            self._urgent.append((time.monotonic() + LONGEST_WAIT, item))
            self._queue.put(None)
        else:
            self._queue.put(item)

    def next(self, seconds: float) -> InboxItem | None:
        """Wait up to `seconds` for the next item; None if there is none."""
        self._turned = time.monotonic()
        deadline = self._turned + seconds
        while True:
            item: InboxItem | None = None
            if not self._urgent or time.monotonic() < self._urgent[0][0]:
                try:
                    item = self._queue.get(timeout=max(0.0, deadline - time.monotonic()))
                except queue.Empty:
                    return None
            if item is None and self._urgent:
                _, item = self._urgent.popleft()
            if isinstance(item, MessageReceived):
                (self._client_places if item.rank < 0 else self._places).release()
            if item is not None:
                return item

    def connected(self, hello: Hello, channel: Channel) -> None:
        """Add `Connected`, and start a thread that reads the messages of the connection.

        Raises RuntimeError at a limit for threads.
        """
        threading.Thread(
            target=self._read, args=(hello, channel), daemon=True, name=f"read-{hello.rank}"
        ).start()

    def _read(self, hello: Hello, channel: Channel) -> None:
        rank = hello.rank
        places = self._client_places if rank < 0 else self._places
        self.put(Connected(hello, channel))
        while True:
            try:
                message = channel.receive()
            except msgspec.DecodeError:
                continue
            except CLOSED:
                self.put(Disconnected(rank))
                return
            if isinstance(message, StatusQuestion):
                # Here and not in the main thread, which may wait for a disk.
                if self.answer_status is not None and rank < 0:
                    with contextlib.suppress(*CLOSED):
                        channel.send(self.answer_status(time.monotonic() - self._turned))
                continue
            places.acquire()
            self.put(MessageReceived(rank, channel, message))


def _is_urgent(item: InboxItem) -> bool:
    return isinstance(item, SignalReceived) or (isinstance(item, MessageReceived) and item.rank < 0)
