"""Keeps the commands that a worker receives until the next step boundary."""

from __future__ import annotations

import logging
import threading
from enum import IntFlag
from typing import assert_never

from engine.messages.commands import Command, EmptyCache, Pause, Resume, SaveCheckpoint, Stop

_log = logging.getLogger(__name__)


class CommandFlags(IntFlag):
    """The commands for one step boundary, as one number on which all ranks can agree."""

    NOTHING = 0
    CHECKPOINT = 1
    EMPTY_CACHE = 2
    PAUSE = 4
    RESUME = 8
    STOP = 16
    FREE_DEVICES = 32
    """Together with PAUSE, or during a pause."""


def flags_of(command: Command) -> CommandFlags:
    """Return the flags that stand for `command`."""
    match command:
        case SaveCheckpoint():
            return CommandFlags.CHECKPOINT
        case EmptyCache():
            return CommandFlags.EMPTY_CACHE
        case Pause(free_devices=True):
            return CommandFlags.PAUSE | CommandFlags.FREE_DEVICES
        case Pause():
            return CommandFlags.PAUSE
        case Resume():
            return CommandFlags.RESUME
        case Stop():
            return CommandFlags.STOP
        case _:
            assert_never(command)


class CommandMailbox:
    """Keeps commands until the training thread collects them. Only rank 0 gets commands."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._pending = CommandFlags.NOTHING
        self._numbers: list[int] = []
        self.collected_numbers: list[int] = []
        """Numbers of the commands of the last `collect`, for the logs."""

    def post(self, command: Command) -> None:
        """Add a command; called by the thread that reads the channel."""
        _log.info("command %d: %s waits for the next step boundary", command.number, command)
        with self._changed:
            self._numbers.append(command.number)
            self._pending |= flags_of(command)
            self._changed.notify()

    @property
    def has_commands(self) -> bool:
        """Whether a command waits."""
        return self._pending != 0  # it is asked in each step, and `bool` of flags is slow

    def collect(self) -> CommandFlags:
        """Return the commands since the last call."""
        with self._changed:
            pending, self._pending = self._pending, CommandFlags.NOTHING
            self.collected_numbers, self._numbers = self._numbers, []
            return pending

    def wait(self, seconds: float) -> CommandFlags:
        """Like `collect`, but wait up to `seconds` for a first command."""
        with self._changed:
            self._changed.wait_for(lambda: self._pending, seconds)
        return self.collect()
