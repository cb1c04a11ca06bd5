"""How much memory the processes of one run hold, measured by a thread of its supervisor."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

from engine.processes import process_tree
from engine.processes.process_tree import Identity

EVERY_SECONDS = 5.0
"""Time between two measurements."""

FIRST_SECONDS = 0.25
"""The same while there is nothing to measure: a run may be over within seconds."""

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


def memory_of(workers: Iterable[Identity]) -> int | None:
    """Return the bytes of memory that `workers` and all processes below them hold; None: unknown.

    Each page that n processes share counts as 1/n of a page for each of them: forked ranks and
    loaders share most of theirs. Elsewhere than on Linux, pages that are shared do not count.
    """
    sizes: list[int | None]
    if process_tree.ON_LINUX:
        alive = [each for each in workers if process_tree.is_alive(each)]
        below = process_tree.descendants([pid for pid, _ in alive])
        sizes = [_proportional(pid) for pid, _ in dict.fromkeys([*alive, *below])]
    else:
        sizes = [size for pid, created in workers for size in _unshared(pid, created)]
    known = [size for size in sizes if size is not None]
    return sum(known) if known else None


def _proportional(pid: int) -> int | None:
    with contextlib.suppress(OSError):  # it has ended, or belongs to another user
        for line in Path(_ROLLUP.format(pid=pid)).read_bytes().splitlines():
            if line.startswith(b"Pss:"):
                return int(line.split()[1]) * 1024
    return None


def _unshared(pid: int, created: float) -> list[int | None]:
    found: list[int | None] = []
    with contextlib.suppress(psutil.Error):
        worker = psutil.Process(pid)
        if abs(worker.create_time() - created) < 0.5:
            for process in (worker, *worker.children(recursive=True)):
                with contextlib.suppress(psutil.Error):
                    found.append(process.memory_full_info().uss)
    return found


class ProcessMemory:
    """A thread that measures the processes of a run until `close` is called."""

    def __init__(self, workers: Callable[[], Sequence[Identity]]) -> None:
        """`workers` returns the processes to measure, from any thread; none: there is nothing to
        measure now. Raises RuntimeError at a limit for threads."""
        self._workers = workers
        self._newest: Measurement | None = None
        self._is_closed = threading.Event()
        threading.Thread(target=self._measure, daemon=True, name="process-memory").start()

    def take(self) -> Measurement | None:
        """Return the newest measurement, once; None: there is no new one."""
        newest, self._newest = self._newest, None
        return newest

    def close(self) -> None:
        """End the thread; do not wait for it."""
        self._is_closed.set()

    def _measure(self) -> None:
        pause = FIRST_SECONDS
        while not self._is_closed.wait(pause):
            begin = time.thread_time()
            workers = self._workers()
            size = memory_of(workers) if workers else None
            if size is not None:
                self._newest = Measurement(time.time(), size)
            cost = time.thread_time() - begin
            pause = max(EVERY_SECONDS if size else FIRST_SECONDS, REST * cost)
