"""Commands between the channel and a step boundary."""

from __future__ import annotations

import threading
from typing import get_args

import pytest

from engine.messages.commands import Command, EmptyCache, Pause, Resume, SaveCheckpoint, Stop
from engine.training.command_mailbox import CommandFlags, CommandMailbox, flags_of

TABLE = {
    SaveCheckpoint(): CommandFlags.CHECKPOINT,
    EmptyCache(): CommandFlags.EMPTY_CACHE,
    Pause(): CommandFlags.PAUSE,
    Pause(free_devices=True): CommandFlags.PAUSE | CommandFlags.FREE_DEVICES,
    Resume(): CommandFlags.RESUME,
    Stop(): CommandFlags.STOP,
    Stop(now=True): CommandFlags.STOP,
}


@pytest.mark.parametrize(("command", "ask"), TABLE.items(), ids=repr)
def test_every_command_has_its_flag(command: Command, ask: CommandFlags) -> None:
    assert flags_of(command) == ask


def test_no_command_is_missing_above() -> None:
    assert {type(command) for command in TABLE} == set(get_args(Command))


def test_an_empty_mailbox_asks_for_nothing() -> None:
    assert CommandMailbox().collect() is CommandFlags.NOTHING


def test_posted_commands_are_collected_once_and_together() -> None:
    mailbox = CommandMailbox()
    for command in (Pause(), SaveCheckpoint(), Pause()):
        mailbox.post(command)
    assert mailbox.collect() == CommandFlags.PAUSE | CommandFlags.CHECKPOINT
    assert mailbox.collect() is CommandFlags.NOTHING


def test_waiting_ends_at_once_for_a_command_that_came_before() -> None:
    mailbox = CommandMailbox()
    mailbox.post(Stop())
    assert mailbox.wait(3600.0) is CommandFlags.STOP


class Telling(threading.Condition):
    """Starts a thread as soon as another one begins to wait."""

    def __init__(self, thread: threading.Thread) -> None:
        super().__init__()
        self._thread = thread

    def wait(self, timeout: float | None = None) -> bool:
        self._thread.start()
        return super().wait(timeout)


def test_waiting_ends_when_something_is_posted() -> None:
    mailbox = CommandMailbox()
    poster = threading.Thread(target=mailbox.post, args=(Resume(),))
    mailbox._changed = Telling(poster)
    assert mailbox.wait(3600.0) is CommandFlags.RESUME
    poster.join()


def test_waiting_without_a_command_returns_no_flags() -> None:
    assert CommandMailbox().wait(0.0) is CommandFlags.NOTHING
