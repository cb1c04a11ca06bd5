"""What comes from other machines is shown in turns: none of them can keep the window busy."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable

from PySide6.QtCore import QObject, Qt, QThread, QTimer, Signal

REST = 2.0
"""After a turn of the window, other machines rest for so many times its length."""

LONGEST_REST = 1.0
"""Seconds."""

_LOOK_SECONDS = 0.1
"""Between two looks whether the window still takes anything."""


class Turns(QObject):
    """Calls functions of other threads in the thread of the window, one at a time."""

    _given = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._next = threading.Lock()
        self._is_over = threading.Event()
        self._given.connect(self._take, Qt.ConnectionType.QueuedConnection)

    def give(self, function: Callable[[], None]) -> None:
        """Let `function` be called, and wait until that is done and the window had time for all
        else. In the thread of the window, it is called at once."""
        if QThread.currentThread() == self.thread():
            function()
            return
        with self._next:
            if self._is_over.is_set():
                return
            begun, done = time.monotonic(), threading.Event()
            with contextlib.suppress(RuntimeError):  # the window is gone
                self._given.emit((function, done))
            while not done.wait(_LOOK_SECONDS):
                if self._is_over.is_set():
                    return
            self._is_over.wait(min(LONGEST_REST, REST * (time.monotonic() - begun)))

    def end(self) -> None:
        """Take nothing more. A thread that waits goes on."""
        self._is_over.set()

    def _take(self, given: tuple[Callable[[], None], threading.Event]) -> None:
        function, done = given
        try:
            if not self._is_over.is_set():
                function()
        finally:
            # What it has put off until the event loop turns, such as a paint, is part of the turn.
            QTimer.singleShot(0, done.set)
