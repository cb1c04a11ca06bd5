"""The children of this process: those that it has started, and those that it has adopted.

On Linux, a process can adopt what ended processes below it have left (a subreaper, see prctl(2)).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.processes import process_tree
from engine.processes.process_tree import ON_LINUX, Identity

END_SECONDS = 2.0
"""Time that adopted processes have to end after SIGTERM."""

_SET_CHILD_SUBREAPER = 36
_MOST_ROUNDS = 5
"""What a killed process leaves is adopted too, and is ended in the next round."""

_starting = threading.Lock()
_started: set[int] = set()
"""Also those that have ended: what a template has forked stays in its session."""


def start(command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a program as `subprocess.Popen` does; it does not count as adopted. Raises OSError."""
    with _starting:
        process = subprocess.Popen(command, **options)
        _started.add(process.pid)
    return process


def adopt_orphans() -> None:
    """Let this process, but not its forked children, adopt what processes below it leave."""
    if ON_LINUX:
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_adopted(seconds: float = END_SECONDS) -> None:
    """Ask the adopted processes to end, and kill those that do not within `seconds`.

    Only for a process that starts its own ones by `start`, or leaves them in its own group.
    """
    for _ in range(_MOST_ROUNDS):
        found = _adopted()
        if not found:
            return
        process_tree.end(found, seconds)
        for pid, _ in found:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def _adopted() -> list[Identity]:
    """Return the adopted children, also those that have ended.

    Workers of other runs are none: this process adopts them if it has started their template, which
    was killed. They are in the template's session.
    """
    with _starting:
        return [
            (pid, found.created)
            for pid, found in process_tree.children(os.getpid())
            if pid not in _started and found.session not in _started and found.group != os.getpgrp()
        ]


class Reaper:
    """Waits for adopted children that have ended, if there are many, in the place of `init`.

    What a recipe has started itself it waits for itself, sooner; the two cannot be told apart.
    """

    def __init__(self, most: int = 100, seconds: float = 60.0) -> None:
        """`most` children may have ended; of more, those that have for `seconds` are reaped."""
        self._most = most
        self._seconds = seconds
        self._ended: dict[int, float] = {}

    def start(self, interval: float = 10.0) -> None:
        """Look every `interval` seconds, in a thread."""

        def look_on() -> None:
            while True:
                time.sleep(interval)
                self.look()

        if ON_LINUX:
            threading.Thread(target=look_on, daemon=True, name="reaper").start()

    def look(self) -> None:
        """Reap children that have ended, if there are many."""
        pid, now = os.getpid(), time.monotonic()
        try:
            # Adopted children belong to the first thread; this file is much faster than all /proc.
            pids = Path(f"/proc/self/task/{pid}/children").read_text().split()
        except OSError:
            return
        ended = [int(each) for each in pids if process_tree.stat(int(each)).state == "Z"]
        self._ended = {each: self._ended.get(each, now) for each in ended}
        if len(ended) <= self._most:
            return
        for each, since in self._ended.items():
            if now - since >= self._seconds:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(each, os.WNOHANG)
