"""The place in the queue of what is measured: it waits for no run, and runs wait for it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence

from engine.processes.machine import this_machine
from engine.processes.process import start_time
from engine.runs import device_queue
from engine.runs.device_queue import MEASUREMENT, Ticket
from engine.spec.device_names import is_logical_cpu
from engine.system.program import call
from engine.telemetry.helper_client import snapshot_once


class DevicesInUse(Exception):
    """A run uses a device that was to be measured; the text is a sentence."""


@contextlib.contextmanager
def claimed_devices(devices: Sequence[str]) -> Iterator[None]:
    """Hold the GPUs among `devices` in the queue of the data folder, so that runs wait meanwhile.

    Short runs are in a data folder of their own and see no queue: enter this before that. The place
    ends with this process, however it ends. Raises DevicesInUse, or OSError.
    """
    gpus = tuple(dict.fromkeys(each for each in devices if not is_logical_cpu(each)))
    if not gpus:
        yield
        return
    pid = os.getpid()
    name = f"{MEASUREMENT} (process {pid})"  # each has its own: a run has one ticket
    ticket = Ticket(name, pid, start_time(pid), gpus, gpus, machine=this_machine())
    ahead = device_queue.enter(ticket)
    try:
        if ahead:
            raise DevicesInUse(_sentence(ahead[0], gpus))
        yield
    finally:
        device_queue.leave(ticket)


def runs_on(devices: Sequence[str]) -> list[str]:
    """Return the numbers of the runs that use or wait for one of `devices` now. Raises OSError."""
    return [each.run for each in device_queue.read() if set(devices).intersection(each.devices)]


def _sentence(ahead: Ticket, gpus: Sequence[str]) -> str:
    names = snapshot_once().display_names()
    used = " and ".join(names.get(each, each) for each in gpus if each in ahead.devices)
    if ahead.run.startswith(MEASUREMENT):
        other = ahead.run.removeprefix("a ")
        return f"Another {other} uses {used} now: wait until it is over, or choose other GPUs."
    does = "waits for" if ahead.place == "waiting" else "uses"
    return (
        f"Run {ahead.run} {does} {used} now: wait until it is over, end it with "
        f"`{call(f'stop {ahead.run}')}`, or choose other GPUs."
    )
