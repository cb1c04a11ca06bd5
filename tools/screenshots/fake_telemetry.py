"""Snapshots of a made-up machine in place of those of this one."""

from __future__ import annotations

import time
from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer

from engine.telemetry.snapshot import Snapshot
from gui.bridge.telemetry_reader import TelemetryReader
from gui.devices.row_layouts import SHOWN_SECONDS

Machine = Callable[[float], Snapshot]
"""What a machine does at a time (seconds since the epoch)."""


class PlayedTelemetry(TelemetryReader):
    """Tells what a made-up machine does, every second; no helper is started."""

    def __init__(
        self, machine: Machine, past: float = SHOWN_SECONDS, parent: QObject | None = None
    ) -> None:
        """`past`: for how many seconds it has been looked at when the window opens."""
        super().__init__(parent=parent)
        self._past = past
        self._machine = machine
        self._told = 0.0
        self._clock = QTimer(self)
        self._clock.setInterval(1000)
        self._clock.timeout.connect(self._tell)

    def start(self) -> None:
        """Tell what has been, and go on from there."""
        self._told = time.time() - self._past
        self._tell()
        self._clock.start()

    def stop(self) -> None:
        """Tell no more."""
        self._clock.stop()

    def set_watching(self, watching: bool) -> None:
        """It does not matter who looks."""

    def set_detail(self, id: str) -> None:
        """Everything is told anyway."""

    def _tell(self) -> None:
        """Tell every second that has passed: drawing may have taken several."""
        while self._told <= time.time():
            self.snapshot.emit(self._machine(self._told))
            self._told += 1.0
