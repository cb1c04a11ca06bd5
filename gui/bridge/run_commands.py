"""Sends commands to runs, apart from all other background work: a halted run answers none."""

from __future__ import annotations

import contextlib
import threading
from collections import deque

from PySide6.QtCore import QObject, Signal

from engine import client
from engine.messages.commands import Command
from gui.bridge.machines.machines import Machines


class RunCommands(QObject):
    """Sends the commands of one run one after the other, and those of several runs at once.

    Nothing waits for an answer: neither the list of runs and their starts, nor the end of the
    window.
    """

    failed = Signal(str, object)
    """Id of a run, and the exception with which a command to it has failed."""

    _failed = Signal(str, object)
    """`failed`, as another thread emits it."""

    def __init__(self, machines: Machines, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._machines = machines
        self._failed.connect(self._deliver)
        self._lock = threading.Lock()
        self._waiting: dict[str, deque[Command]] = {}

    def send(self, run_id: str, command: Command) -> None:
        """Send `command` after the earlier ones, unless the last of them is the same."""
        with self._lock:
            waiting = self._waiting.setdefault(run_id, deque())
            if not waiting or waiting[-1] != command:
                waiting.append(command)
            if len(waiting) > 1 or waiting[-1] is not command:
                return
        try:
            # Not a ThreadPoolExecutor: Python would wait for its threads when the window ends.
            name = f"commands {run_id}"
            threading.Thread(target=self._send_all, args=(run_id,), name=name, daemon=True).start()
        except RuntimeError as error:  # a limit for threads
            with self._lock:
                del self._waiting[run_id]
            text = f"Run {run_id} was sent no command: {error}."
            self.failed.emit(run_id, client.CommandFailed(text))

    def _deliver(self, run_id: str, error: Exception) -> None:
        self.failed.emit(run_id, error)

    def _send_all(self, run_id: str) -> None:
        """Send the commands that wait for `run_id`; a thread runs this."""
        while True:
            with self._lock:
                command = self._waiting[run_id][0]
            try:
                engine, run = self._machines.engine_of(run_id)
                engine.send(run, command)
            except Exception as error:  # the window shows it, or raises it in its own thread
                with contextlib.suppress(RuntimeError):  # the window is gone
                    self._failed.emit(run_id, error)
            with self._lock:
                self._waiting[run_id].popleft()
                if not self._waiting[run_id]:
                    del self._waiting[run_id]
                    return
