"""How much memory the processes of one run hold, measured by a thread of its supervisor."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

from engine.processes import process_tree
from engine.processes.process_tree import Identity

FIRST_SECONDS, EVERY_SECONDS = 0.25, 5.0
"""Time between two measurements after the first step; each pause is twice the one before, because a
run may be over within seconds."""

REST = 200
"""A measurement is followed by at least so many times its own computing time: the kernel walks all
pages of a process for it. So the thread takes 0.5 % of a core at most."""

_ROLLUP = "/proc/{pid}/smaps_rollup"


class Measurement(NamedTuple):
    """What the processes of a run held at one time."""

    time: float
    """Seconds since the epoch."""

    size: int
    """Bytes."""


class _Pages(NamedTuple):
    """The bytes of a process whose pages belong to no file; see proc(5) on `smaps_rollup`."""

    anonymous: int
    """All of its own memory, also what it shares with the process that has forked it."""

    proportional: int
    """The same, but 1/n of each page that n processes share."""

    private: int
    """What no other process has."""

    shared_memory: int
    """Its part of the shared memory by which processes exchange batches."""


def memory_of(workers: Iterable[Identity]) -> int | None:
    """Return the bytes of memory that `workers` and all processes below them hold; None: unknown.

    On Linux, a page that several of them share counts once, and one that they share with the
    template that has forked them counts as their own: without it they would have made the same.
    Pages of files, such as the code of libraries, do not count: all programs share them, and the
    system drops them when memory is short. So the size depends neither on how the workers started
    nor on what else runs. Elsewhere, only pages that are not shared count.
    """
    if not process_tree.ON_LINUX:
        sizes = [size for pid, created in workers for size in _unshared(pid, created)]
        return sum(sizes) if sizes else None
    alive = [each for each in workers if process_tree.is_alive(each)]
    below = process_tree.descendants([pid for pid, _ in alive])
    found = [_pages(pid) for pid, _ in dict.fromkeys([*alive, *below])]
    known = [pages for pages in found if pages is not None]
    return _together(known) if known else None


def _together(processes: Sequence[_Pages]) -> int:
    """Return what the processes hold together.

    The kernel tells how many bytes a process shares, and what part of them is its own, but not with
    whom. Together the processes share at least as many as one of them does.
    """
    private = sum(each.private for each in processes)
    parts = sum(each.proportional - each.private for each in processes)
    most = max(each.anonymous - each.private for each in processes)
    return private + max(parts, most) + sum(each.shared_memory for each in processes)


def _pages(pid: int) -> _Pages | None:
    try:
        content = Path(_ROLLUP.format(pid=pid)).read_bytes()
    except OSError:  # it has ended, or belongs to another user
        return None
    rows = (line.split() for line in content.splitlines()[1:])
    size = {row[0].decode().rstrip(":"): int(row[1]) * 1024 for row in rows}
    anonymous = size.get("Anonymous", 0)
    # Kernels before 5.3 do not divide the proportional size into kinds of pages.
    proportional = min(size.get("Pss_Anon", size.get("Pss", 0)), anonymous)
    private = min(size.get("Private_Dirty", 0), proportional)
    return _Pages(anonymous, proportional, private, size.get("Pss_Shmem", 0))


def _unshared(pid: int, created: float) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(psutil.Error):
        worker = psutil.Process(pid)
        if abs(worker.create_time() - created) < 0.5:
            for process in (worker, *worker.children(recursive=True)):
                with contextlib.suppress(psutil.Error):
                    found.append(process.memory_full_info().uss)
    return found


class ProcessMemory:
    """A thread that measures the processes of a run until `close` is called."""

    def __init__(
        self,
        workers: Callable[[], Sequence[Identity]],
        tell: Callable[[Measurement], None],
    ) -> None:
        """Both are called from the thread: `workers` returns the processes to measure (none: there
        is nothing to measure now), `tell` gets each measurement. Raises RuntimeError at a limit for
        threads."""
        self._workers, self._tell = workers, tell
        self._is_due = threading.Event()
        self._is_closed = False
        threading.Thread(target=self._measure, daemon=True, name="process-memory").start()

    def note_first_step(self) -> None:
        """Measure now, and then at first more often: an attempt has done its first step."""
        self._is_due.set()

    def close(self) -> None:
        """End the thread; do not wait for it."""
        self._is_closed = True
        self._is_due.set()

    def _measure(self) -> None:
        pause = math.inf
        while True:
            begins_anew = self._is_due.wait(None if pause == math.inf else pause)
            self._is_due.clear()
            if self._is_closed:
                return
            begin = time.thread_time()
            workers = self._workers()
            size = memory_of(workers) if workers else None
            if size is not None:
                self._tell(Measurement(time.time(), size))
            cost = time.thread_time() - begin
            pause = FIRST_SECONDS if begins_anew else min(2 * pause, EVERY_SECONDS)
            pause = max(pause, REST * cost)
