"""Commands on their way from a person to a step boundary, inside one worker."""

from __future__ import annotations

import threading
from enum import IntFlag
from typing import assert_never

from engine.messages.commands import Command, EmptyCache, Pause, Resume, SaveCheckpoint, Stop


class Ask(IntFlag):
    """What is asked for at a step boundary; several at once as one number that ranks reduce."""

    NOTHING = 0
    CHECKPOINT = 1
    EMPTY_CACHE = 2
    PAUSE = 4
    RESUME = 8
    STOP = 16
    FREE_DEVICES = 32
    """While paused."""


def ask_of(command: Command) -> Ask:
    """The flags that stand for `command`."""
    match command:
        case SaveCheckpoint():
            return Ask.CHECKPOINT
        case EmptyCache():
            return Ask.EMPTY_CACHE
        case Pause():
            return Ask.PAUSE | Ask.FREE_DEVICES if command.free_devices else Ask.PAUSE
        case Resume():
            return Ask.RESUME
        case Stop():
            return Ask.STOP
        case _:
            assert_never(command)


class Mailbox:
    """Holds what was asked until the training thread looks. Only rank 0's ever gets anything."""

    def __init__(self) -> None:
        self._news = threading.Condition()
        self._pending = Ask.NOTHING

    def post(self, command: Command) -> None:
        """Leave a command; called by the thread that reads the channel."""
        with self._news:
            self._pending |= ask_of(command)
            self._news.notify()

    def take(self) -> Ask:
        """What was asked since the last call."""
        with self._news:
            pending, self._pending = self._pending, Ask.NOTHING
            return pending

    def wait(self, seconds: float) -> Ask:
        """Like `take`, but waits up to `seconds` for something."""
        with self._news:
            self._news.wait_for(lambda: self._pending, seconds)
        return self.take()
