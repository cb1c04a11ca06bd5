"""Telemetry of a made-up machine, in place of this machine's."""

from __future__ import annotations

import time
from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer

from engine.telemetry.snapshot import Snapshot
from gui.bridge.telemetry_reader import TelemetryReader
from gui.devices.row_layouts import SHOWN_SECONDS

Machine = Callable[[float], Snapshot]
"""Returns the snapshot of a machine at a time (seconds since the epoch)."""


class FakeTelemetry(TelemetryReader):
    """Emits a snapshot of a made-up machine every second; starts no helper."""

    def __init__(
        self, machine: Machine, seconds_before: float = SHOWN_SECONDS, parent: QObject | None = None
    ) -> None:
        """`seconds_before`: length of the history when the window opens."""
        super().__init__(parent=parent)
        self._seconds_before = seconds_before
        self._machine = machine
        self._next_second = 0.0
        self._clock = QTimer(self)
        self._clock.setInterval(1000)
        self._clock.timeout.connect(self._emit_due)

    def start(self) -> None:
        """Emit the history, then a snapshot every second."""
        self._next_second = time.time() - self._seconds_before
        self._emit_due()
        self._clock.start()

    def stop(self) -> None:
        """Emit no more snapshots."""
        self._clock.stop()

    def set_watching(self, watching: bool) -> None:
        """The rate is always the same."""

    def set_detail(self, id: str) -> None:
        """Every snapshot has all details."""

    def _emit_due(self) -> None:
        """Emit the snapshot of every second that has passed: drawing may take several seconds."""
        while self._next_second <= time.time():
            self.snapshot.emit(self._machine(self._next_second))
            self._next_second += 1.0
