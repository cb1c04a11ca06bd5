"""Processes and their descendants on Linux: who they are, and how all of them are ended.

It imports little, because the guardian of a run (`engine.processes.guardian`) is a small program.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
import zlib
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from typing import NamedTuple

ON_LINUX = sys.platform == "linux"

_MOST_ROUNDS = 50
"""A process that starts others is halted after the first round; the limit is for stubborn ones."""


class Stat(NamedTuple):
    """Some fields of /proc/<pid>/stat; see proc(5)."""

    state: str
    """Empty if there is no such process."""

    parent: int
    group: int
    session: int
    created: float
    """See `engine.processes.process.start_time`."""


Identity = tuple[int, float]
"""Pid and start time; the pid alone may belong to another process later."""


def stat(pid: int) -> Stat:
    """Return the fields of process `pid`; without it, an empty state and zeros."""
    try:
        with open(f"/proc/{pid}/stat", errors="replace") as file:  # noqa: PTH123  # it is light
            text = file.read()
    except OSError:
        return Stat("", 0, 0, 0, 0.0)
    fields = text.rpartition(")")[2].split()  # the name in brackets may hold any character
    started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    parent, group, session = map(int, fields[1:4])
    return Stat(fields[0], parent, group, session, started and started + _boot())


@cache
def _boot() -> float:
    """Return a number for this boot, large enough that two boots have no equal start times."""
    try:
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:  # noqa: PTH123
            boot = file.read()
    except OSError:
        return 0.0
    return zlib.crc32(boot) % 10_000 * 1e9


def is_alive(process: Identity) -> bool:
    """Whether this very process runs, and is no zombie."""
    found = stat(process[0])
    return found.created == process[1] and found.state not in ("Z", "X", "")


def _all() -> Iterator[tuple[int, Stat]]:
    """Yield every process; none on other systems than Linux."""
    for name in os.listdir("/proc") if ON_LINUX else ():  # noqa: PTH208
        if name.isdecimal():
            yield int(name), stat(int(name))


def children(parent: int) -> list[tuple[int, Stat]]:
    """Return the children of a process, also those that have ended and were not waited for."""
    return [(pid, found) for pid, found in _all() if found.state and found.parent == parent]


def descendants(roots: Collection[int]) -> list[Identity]:
    """Return the living descendants of the processes `roots`, parents before their children."""
    children: dict[int, list[Identity]] = {}
    for pid, found in _all():
        if found.state not in ("Z", "X", ""):
            children.setdefault(found.parent, []).append((pid, found.created))
    result: list[Identity] = []
    left = list(roots)
    while left:
        below = children.pop(left.pop(0), [])
        result += below
        left += [pid for pid, _ in below]
    return result


def send(process: Identity, number: int) -> None:
    """Send a signal to this very process, if it still runs and this user may do that."""
    pid, created = process
    with contextlib.suppress(OSError):
        if not hasattr(os, "pidfd_open"):
            if is_alive(process):
                os.kill(pid, number)
            return
        descriptor = os.pidfd_open(pid)
        try:
            if stat(pid).created == created:
                signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)


def ask_to_end(process: Identity) -> None:
    """Ask this very process to end by SIGTERM; one that is halted goes on, to be able to."""
    send(process, signal.SIGTERM)
    send(process, signal.SIGCONT)


def kill(roots: Iterable[Identity]) -> None:
    """Kill `roots` and all their descendants, also those that are being started meanwhile."""
    halted = {each: None for each in roots if is_alive(each)}
    new = list(halted)
    for _ in range(_MOST_ROUNDS if halted else 0):
        for each in new:
            send(each, signal.SIGSTOP)  # it starts no more processes
        below = descendants([pid for pid, _ in halted])
        new = [each for each in below if each not in halted]
        if not new:
            break
        halted.update(dict.fromkeys(new))
    for each in halted:
        send(each, signal.SIGKILL)


def end(processes: Iterable[Identity], seconds: float) -> None:
    """Ask `processes` to end; after `seconds`, kill those that still run and all below them."""
    left = [each for each in processes if is_alive(each)]
    for each in left:
        ask_to_end(each)
    deadline = time.monotonic() + seconds
    while left and time.monotonic() < deadline:
        time.sleep(0.02)
        left = [each for each in left if is_alive(each)]
    kill(left)
