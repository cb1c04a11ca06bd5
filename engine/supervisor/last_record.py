"""Keeps a supervisor until the end of its run is recorded, and tells it to those who ask."""

from __future__ import annotations

import contextlib
import logging

from engine.messages.channel import CLOSED, CommandAccepted, Message
from engine.messages.commands import Command, Stop
from engine.messages.events import CommandRefused
from engine.supervisor.buffered_store import RETRY_SECONDS, BufferedStore
from engine.supervisor.inbox import Inbox, MessageReceived

_log = logging.getLogger(__name__)


def wait_until_recorded(store: BufferedStore, inbox: Inbox) -> None:
    """Wait until the store has taken the end of the run, which has no process left.

    Until then only this process knows how the run ended. It gives up when the folder is deleted, or
    when it is stopped, also by a signal that came before: the machine may be shutting down.
    """
    if not store.is_behind:
        return
    while store.is_behind and not store.is_missing() and not inbox.has_signal:
        match inbox.next(RETRY_SECONDS):
            case MessageReceived(channel=channel, message=message) if isinstance(message, Command):
                is_stop = isinstance(message, Stop)
                with contextlib.suppress(*CLOSED):
                    channel.send(_answer(message, store))
                if is_stop:
                    break
            case _:
                pass
        store.commit()
    if not store.is_behind:
        store.close()
    _log.info("the end of the run is recorded: %s", not store.is_behind)


def _answer(command: Command, store: BufferedStore) -> Message:
    if isinstance(command, Stop):
        return CommandAccepted(store.last_seq())
    text = f"The run is over, but that cannot be recorded yet: {store.write_problem}."
    return CommandRefused(type(command).__name__, text)
