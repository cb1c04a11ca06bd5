"""The steps of a supervisor in the queue for the devices.

The supervisor enters the queue, waits for its turn, releases the devices when a pause frees them,
reacquires them for the resume, and leaves the queue.
"""

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
from engine.messages.heartbeat import Heartbeat
from engine.processes import process
from engine.processes.machine import this_machine
from engine.runs import device_queue
from engine.runs.device_queue import Ticket, named
from engine.runs.run_state import RunStatus
from engine.spec.device_names import all_on_cpu
from engine.spec.run_spec import RunSpec
from engine.supervisor.buffered_store import BufferedStore
from engine.supervisor.inbox import Inbox, MessageReceived, SignalReceived
from engine.system import paths
from engine.telemetry.helper_client import snapshot_once

_log = logging.getLogger(__name__)

POLL_SECONDS = 0.25
"""Time between two reads of the queue."""

STOPPED = RunEnded("stopped", "Stopped in the queue, before it began.")


class QueueAdmission:
    """Admits a run as soon as no earlier run holds one of its exclusive devices."""

    def __init__(self, folder: Path, spec: RunSpec) -> None:
        pid, exclusive = os.getpid(), device_queue.exclusive_devices(spec)
        created = process.start_time(pid)
        self._ticket = Ticket(
            folder.name, pid, created, spec.devices, exclusive, machine=this_machine()
        )
        self._heartbeat = Heartbeat(folder)
        self._ahead: list[Ticket] = []
        self._is_released = False
        self._devices_were_freed = False

    def enter_queue(self) -> None:
        """Take a ticket. Raises OSError."""
        self._ahead = device_queue.enter(self._ticket)

    def wait_for_turn(self, store: BufferedStore, inbox: Inbox) -> RunEnded | None:
        """Wait until no run is ahead, and answer requests meanwhile.

        Return None then; for a run that is stopped in the queue, its recorded terminal event.
        """
        if not self._ahead:
            _log.info("queue: no run is ahead on %s", self._ticket.exclusive_devices)
            return None
        ended = self._wait(store, inbox)
        _record(store, ended or Queued((), ""))
        if ended:
            store.close()
        return ended

    def _wait(self, store: BufferedStore, inbox: Inbox) -> RunEnded | None:
        recorded = ""
        names = _device_names(self._ticket)
        while self._ahead:
            reason = device_queue.describe(self._ticket, self._ahead, names)
            if reason != recorded:
                recorded = reason
                _log.info("queue: %s", reason)
                _record(store, Queued(tuple(ticket.run for ticket in self._ahead), reason))
            if not store.is_behind:
                self._heartbeat.beat()
            if _stop_requested(store, inbox) or store.is_missing():
                return STOPPED
            with contextlib.suppress(OSError):  # a full disk or a locked file: try again next time
                self._ahead = device_queue.enter(self._ticket)
        return None

    def release_freed(self, status: RunStatus) -> None:
        """Release the devices for other runs when a pause has freed them."""
        if status.freed_devices == self._devices_were_freed:
            return
        with contextlib.suppress(OSError):  # then the next call tries again
            if status.freed_devices:
                device_queue.release(self._ticket)
                self._is_released = True
                _log.info("queue: released the devices of a paused run")
            self._devices_were_freed = status.freed_devices

    def stays_paused(self) -> None:
        """Note that the workers are paused, perhaps still: their devices had no room for them."""
        self._devices_were_freed = False

    def reacquire(self) -> str:
        """Take released devices again. Return why that is not possible yet, or an empty string."""
        if not self._is_released:
            return ""
        try:
            others = device_queue.reacquire(self._ticket)
        except OSError as error:
            return f"The queue of the devices cannot be read: {error}."
        if not others:
            self._is_released = False
            _log.info("queue: reacquired the devices")
            return ""
        shared = set(self._ticket.exclusive_devices).intersection(others[0].devices)
        names = _device_names(self._ticket)
        devices = " and ".join(names.get(device, device) for device in sorted(shared))
        return (
            f"{named(others[0].run).capitalize()} uses {devices} now: resume this run when that "
            "one is over or paused with its GPUs freed."
        )

    def leave(self) -> None:
        """Leave the queue. If its file cannot be written, the ticket expires with this process."""
        with contextlib.suppress(OSError):
            if paths.home().exists():  # it was moved: a new one in its place would be in the way
                device_queue.leave(self._ticket)


def _stop_requested(store: BufferedStore, inbox: Inbox) -> bool:
    """Answer requests for POLL_SECONDS. Return whether the run must stop."""
    due = time.monotonic() + POLL_SECONDS
    while (remaining := due - time.monotonic()) > 0:
        match inbox.next(remaining):
            case MessageReceived(channel=channel, message=message) if isinstance(message, Command):
                if _answer(store, channel, message):
                    return True
            case SignalReceived(signal):
                _record(store, Notice(f"The supervisor got {signal}: the run is stopped."))
                return True
            case _:
                pass
    return False


def _answer(store: BufferedStore, channel: Channel, command: Command) -> bool:
    """Accept or refuse `command`. Return whether it stops the run."""
    name, stops = type(command).__name__, isinstance(command, Stop)
    answer: Message
    if stops:
        _record(store, CommandReceived(name))
        answer = CommandAccepted(store.last_seq())
    else:
        answer = CommandRefused(name, "The run waits in the queue: it can be stopped or moved.")
        _record(store, answer)
    with contextlib.suppress(*CLOSED):  # the sender may be gone; the command is carried out
        channel.send(answer)
    return stops


def _device_names(ticket: Ticket) -> Mapping[str, str]:
    """Return short names of the GPUs; asks the driver, which may take seconds."""
    if all_on_cpu(ticket.exclusive_devices):
        return {}
    return snapshot_once().display_names()


def _record(store: BufferedStore, event: Event) -> None:
    store.append(event)
    store.commit()
