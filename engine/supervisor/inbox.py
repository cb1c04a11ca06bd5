"""Everything that can happen to a supervisor, as one queue of typed news."""

from __future__ import annotations

import queue
import threading
from typing import NamedTuple

import msgspec

from engine.messages.channel import CLOSED, Channel, Hello, Message
from engine.telemetry.snapshot import Snapshot


class Connected(NamedTuple):
    """Somebody authenticated and said who it is."""

    hello: Hello
    channel: Channel


class Received(NamedTuple):
    """A message from a worker (its rank) or from a window or command line (-1)."""

    rank: int
    channel: Channel
    message: Message


class Left(NamedTuple):
    """A worker's connection ended, with everything before that received."""

    rank: int


class WorkerExited(NamedTuple):
    """A worker's process is gone."""

    rank: int
    code: int


class DeviceNews(NamedTuple):
    """The telemetry helper's newest picture."""

    snapshot: Snapshot


class Interrupted(NamedTuple):
    """The system asks the supervisor itself to end (SIGTERM, SIGINT, SIGHUP)."""

    signal: str


News = Connected | Received | Left | WorkerExited | DeviceNews | Interrupted


MOST_UNREAD = 64
"""Messages of all connections together that wait for the main thread; more are left unread, and
then it is the worker that keeps them, and has a limit of its own."""


class Inbox:
    """Filled by a thread per connection and per process, emptied by the main thread."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[News] = queue.SimpleQueue()
        self._room = threading.Semaphore(MOST_UNREAD)
        self.put = self._queue.put

    def next(self, seconds: float) -> News | None:
        """The oldest news, waited for up to `seconds`; None when there is none."""
        try:
            news = self._queue.get(timeout=max(0.0, seconds))
        except queue.Empty:
            return None
        if isinstance(news, Received):
            self._room.release()
        return news

    def connected(self, hello: Hello, channel: Channel) -> None:
        """Announce a connection and go on reading from it until it ends."""
        self.put(Connected(hello, channel))
        threading.Thread(
            target=self._read, args=(hello.rank, channel), daemon=True, name=f"read-{hello.rank}"
        ).start()

    def _read(self, rank: int, channel: Channel) -> None:
        while True:
            try:
                message = channel.receive()
            except msgspec.DecodeError:
                continue
            except CLOSED:
                self.put(Left(rank))
                return
            self._room.acquire()
            self.put(Received(rank, channel, message))
