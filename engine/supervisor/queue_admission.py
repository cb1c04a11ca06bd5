"""A run's place in the queue, as its supervisor sees it: waiting, inside, aside, gone."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path

from engine.messages.channel import CLOSED, Channel, CommandAccepted, Message
from engine.messages.commands import Command, Stop
from engine.messages.events import CommandReceived, CommandRefused, Event, Notice, Queued, RunEnded
from engine.runs import device_queue
from engine.runs.device_queue import Ticket
from engine.runs.run_state import RunStatus
from engine.spec.device_names import all_on_cpu
from engine.spec.run_spec import RunSpec
from engine.supervisor.buffered_store import BufferedStore
from engine.supervisor.inbox import Inbox, Interrupted, Received
from engine.system import process
from engine.telemetry.probe import snapshot_once

_log = logging.getLogger(__name__)

LOOK_SECONDS = 0.25
"""Time between two looks at the queue."""

STOPPED = RunEnded("stopped", "Stopped in the queue, before it began.")


class QueueAdmission:
    """Lets a run through when the devices that it wants alone are free."""

    def __init__(self, folder: Path, spec: RunSpec) -> None:
        pid, alone = os.getpid(), device_queue.wanted_alone(spec)
        self._ticket = Ticket(folder.name, pid, process.created(pid), spec.devices, alone)
        self._ahead: list[Ticket] = []
        self._is_aside = False
        self._were_freed = False

    def draw(self) -> None:
        """Take a place in the queue. Raises OSError."""
        self._ahead = device_queue.enter(self._ticket)

    def wait(self, buffer: BufferedStore, inbox: Inbox) -> RunEnded | None:
        """Wait in line, and answer whoever asks; None when the turn has come.

        Otherwise the terminal event of a run that was stopped before it began, already recorded.
        """
        if not self._ahead:
            _log.info("queue: no run is ahead on %s", self._ticket.wants_alone)
            return None
        ended = self._wait_in(buffer, inbox)
        _record(buffer, ended or Queued((), ""))
        if ended:
            buffer.close()
        return ended

    def _wait_in(self, buffer: BufferedStore, inbox: Inbox) -> RunEnded | None:
        said = ""
        names = _device_names(self._ticket)
        while self._ahead:
            reason = device_queue.describe(self._ticket, self._ahead, names)
            if reason != said:
                said = reason
                _log.info("queue: %s", reason)
                _record(buffer, Queued(tuple(each.run for each in self._ahead), reason))
            if _is_called_off(buffer, inbox) or buffer.is_gone():
                return STOPPED
            with contextlib.suppress(OSError):  # the disk is full, or the lock taken: it may pass
                self._ahead = device_queue.enter(self._ticket)
        return None

    def follow(self, status: RunStatus) -> None:
        """Let others in while the run is paused with its devices freed."""
        if status.freed_devices == self._were_freed:
            return
        with contextlib.suppress(OSError):  # then at the next turn
            if status.freed_devices:
                device_queue.release(self._ticket)
                self._is_aside = True
                _log.info("queue: released the devices of a paused run")
            self._were_freed = status.freed_devices

    def reacquire(self) -> str:
        """Take freed devices again, so that the run can go on; or the sentence why not yet."""
        if not self._is_aside:
            return ""
        try:
            others = device_queue.reacquire(self._ticket)
        except OSError as error:
            return f"The queue of the devices cannot be read: {error}."
        if not others:
            self._is_aside = False
            _log.info("queue: took the devices again")
            return ""
        shared = set(self._ticket.wants_alone).intersection(others[0].devices)
        names = _device_names(self._ticket)
        devices = " and ".join(names.get(device, device) for device in sorted(shared))
        return (
            f"Run {others[0].run} uses {devices} now: resume this run when that one is over or "
            "paused with its GPUs freed."
        )

    def leave(self) -> None:
        """Give the place up. If that cannot be written, it counts no more once we are gone."""
        with contextlib.suppress(OSError):
            device_queue.leave(self._ticket)


def _is_called_off(buffer: BufferedStore, inbox: Inbox) -> bool:
    """Listen until the next look at the queue; whether the run is to end."""
    due = time.monotonic() + LOOK_SECONDS
    while (left := due - time.monotonic()) > 0:
        match inbox.next(left):
            case Received(channel=channel, message=message) if isinstance(message, Command):
                if _answer(buffer, channel, message):
                    return True
            case Interrupted(signal):
                _record(buffer, Notice(f"The supervisor got {signal}: the run is stopped."))
                return True
            case _:
                pass
    return False


def _answer(buffer: BufferedStore, channel: Channel, command: Command) -> bool:
    """Take or refuse `command`; whether it ends the run."""
    name, stops = type(command).__name__, isinstance(command, Stop)
    answer: Message
    if stops:
        _record(buffer, CommandReceived(name))
        answer = CommandAccepted(buffer.last_seq())
    else:
        answer = CommandRefused(name, "The run waits in the queue: it can be stopped or moved.")
        _record(buffer, answer)
    with contextlib.suppress(*CLOSED):  # it asked and left; the command stands all the same
        channel.send(answer)
    return stops


def _device_names(ticket: Ticket) -> Mapping[str, str]:
    """What people call the GPUs of `ticket`; asks the driver, which may take seconds."""
    if all_on_cpu(ticket.wants_alone):
        return {}
    return snapshot_once().spoken_names()


def _record(buffer: BufferedStore, event: Event) -> None:
    buffer.append(event, time.time())
    buffer.commit()
