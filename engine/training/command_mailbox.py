"""Commands on their way from a person to a step boundary, inside one worker."""

from __future__ import annotations

import threading
from enum import IntFlag
from typing import assert_never

from engine.messages.commands import Command, EmptyCache, Pause, Resume, SaveCheckpoint, Stop


class CommandFlags(IntFlag):
    """What is asked for at a step boundary; several at once as one number that ranks reduce."""

    NOTHING = 0
    CHECKPOINT = 1
    EMPTY_CACHE = 2
    PAUSE = 4
    RESUME = 8
    STOP = 16
    FREE_DEVICES = 32
    """While paused."""


def flags_of(command: Command) -> CommandFlags:
    """The flags that stand for `command`."""
    match command:
        case SaveCheckpoint():
            return CommandFlags.CHECKPOINT
        case EmptyCache():
            return CommandFlags.EMPTY_CACHE
        case Pause():
            return (
                CommandFlags.PAUSE | CommandFlags.FREE_DEVICES
                if command.free_devices
                else CommandFlags.PAUSE
            )
        case Resume():
            return CommandFlags.RESUME
        case Stop():
            return CommandFlags.STOP
        case _:
            assert_never(command)


class CommandMailbox:
    """Holds what was asked until the training thread looks. Only rank 0's ever gets anything."""

    def __init__(self) -> None:
        self._news = threading.Condition()
        self._pending = CommandFlags.NOTHING

    def post(self, command: Command) -> None:
        """Leave a command; called by the thread that reads the channel."""
        with self._news:
            self._pending |= flags_of(command)
            self._news.notify()

    def take(self) -> CommandFlags:
        """What was asked since the last call."""
        with self._news:
            pending, self._pending = self._pending, CommandFlags.NOTHING
            return pending

    def wait(self, seconds: float) -> CommandFlags:
        """Like `take`, but waits up to `seconds` for something."""
        with self._news:
            self._news.wait_for(lambda: self._pending, seconds)
        return self.take()
