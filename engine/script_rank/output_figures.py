"""Reads the figures of the command's output while no more of it waits, so that none holds it up."""

from __future__ import annotations

import threading
import time
from collections import deque

from engine.script_rank.figures import Figure, FigureReader

MOST_WAITING = 4 * 2**20
"""Bytes of output that wait to be read; what comes beyond that is not read."""

LEAST_SECONDS = 1.0
"""A command that prints without a pause is read once in this time."""

LAST_SECONDS = 3.0
"""Time for what waits at the end."""


class OutputFigures:
    """Two threads use it: one adds and reads while the command runs, one takes what was found."""

    def __init__(self) -> None:
        self._reader = FigureReader()
        self._reading = threading.Lock()
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._found: deque[Figure] = deque()
        self._has_found = False
        self._due = time.monotonic() + LEAST_SECONDS
        self._is_cut = False

    @property
    def epoch(self) -> int:
        """The last epoch that a line named."""
        return self._reader.epoch

    @property
    def misses(self) -> bool:
        """Whether figures may be in output that was not read."""
        return self._is_cut and self._has_found

    def add(self, piece: bytes) -> None:
        """Add a piece of output."""
        if self._size + len(piece) <= MOST_WAITING:
            self._size += len(piece)
            self._waiting.append(piece)
        elif not self._is_cut or self._waiting[-1] != b"\n":
            self._is_cut = True
            self._waiting.append(b"\n")  # the next piece continues no line
        if time.monotonic() >= self._due:
            self.read_piece()

    def read_piece(self) -> bool:
        """Read the oldest piece that waits; return whether there was one."""
        with self._reading:
            if not self._waiting:
                return False
            piece = self._waiting.popleft()
            self._size = max(0, self._size - len(piece))
            self._read(piece)
            self._due = time.monotonic() + LEAST_SECONDS
        return True

    def _read(self, piece: bytes) -> None:
        before = len(self._found)
        self._found.extend(self._reader.read(piece))
        self._has_found |= len(self._found) > before

    def finish(self) -> None:
        """Read what waits, for a limited time, and a line without an end."""
        deadline = time.monotonic() + LAST_SECONDS
        while self.read_piece():
            if time.monotonic() > deadline:
                self._is_cut = True
                break
        with self._reading:
            self._read(b"\n")

    def take(self) -> list[Figure]:
        """Return what was found since the last call."""
        return [self._found.popleft() for _ in range(len(self._found))]
