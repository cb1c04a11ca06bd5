"""Runs the sampling helper and turns its lines into device snapshots."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Sequence

from PySide6.QtCore import QObject, QProcess, QTimer, Signal

from engine.telemetry.helper.requests import UNWATCHED_INTERVAL
from engine.telemetry.helper_client import (
    ARGUMENTS,
    RESTART_PAUSE,
    ROOT,
    read_snapshot,
    write_requests,
)

_log = logging.getLogger(__name__)

STALE_AFTER = 3.0
"""Seconds without a line after which the figures on the screen are no longer news."""


class TelemetryReader(QObject):
    """Owns the helper process; it ends with the window, because its standard input does."""

    snapshot = Signal(object)
    """engine.telemetry.snapshot.Snapshot, about every second."""

    stale = Signal(float)
    """Time of the last snapshot (seconds since the epoch): nothing has come since."""

    def __init__(
        self,
        helper: Sequence[str] = ARGUMENTS,
        *,
        stale_after: float = STALE_AFTER,
        restart_after: float = RESTART_PAUSE,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._stale_after = stale_after
        self._restart_after = restart_after
        self._started = 0.0
        self._heard = 0.0
        self._heard_at = time.time()
        self._said_stale = False
        self._watching = True
        self._watching_since = 0.0
        self._detail = ""
        self._process = QProcess(self)
        self._process.setProgram(sys.executable)
        self._process.setArguments(list(helper))
        self._process.setWorkingDirectory(str(ROOT))
        self._process.setProcessChannelMode(QProcess.ProcessChannelMode.ForwardedErrorChannel)
        self._process.started.connect(self._ask)  # every helper anew: it knows nothing yet
        self._process.readyReadStandardOutput.connect(self._read)
        self._watchdog = QTimer(self)
        self._watchdog.setInterval(int(stale_after * 1000 / 4))
        self._watchdog.timeout.connect(self._check)

    def start(self) -> None:
        """Start the helper and keep watch over it."""
        self._launch()
        self._watchdog.start()

    def set_watching(self, watching: bool) -> None:
        """Say whether somebody looks: else the helper samples seldom."""
        if watching and not self._watching:
            self._watching_since = time.monotonic()
        self._watching = watching
        self._ask()

    def set_detail(self, id: str) -> None:
        """Ask for the costly figures (rates of PCIe and NVLink) of one GPU, by UUID; empty: of
        none."""
        self._detail = id
        self._ask()

    def stop(self) -> None:
        """End the helper: close its input, then ask, then kill."""
        self._watchdog.stop()
        self._process.closeWriteChannel()
        if self._process.state() is not QProcess.ProcessState.NotRunning:
            if not self._process.waitForFinished(1000):
                self._process.terminate()
            if not self._process.waitForFinished(1000):
                self._end()

    def _ask(self) -> None:
        """Write to the helper what is wanted."""
        if self._process.state() is QProcess.ProcessState.Running:
            requests = write_requests(watching=self._watching, detail=self._detail)
            self._process.write(requests)

    def _launch(self) -> None:
        self._started = self._heard = time.monotonic()
        _log.info("starts the telemetry helper")
        self._process.start()

    def _end(self) -> None:
        self._process.kill()
        self._process.waitForFinished(1000)

    def _read(self) -> None:
        while self._process.canReadLine():
            snapshot = read_snapshot(self._process.readLine().data())
            if snapshot is None:
                continue
            self._heard = time.monotonic()
            self._heard_at = snapshot.time
            self._said_stale = False
            self.snapshot.emit(snapshot)

    def _check(self) -> None:
        now = time.monotonic()
        patience = self._stale_after if self._watching else self._stale_after + UNWATCHED_INTERVAL
        if now - max(self._heard, self._watching_since) < patience:
            return
        if not self._said_stale:
            self._said_stale = True
            _log.info("the telemetry helper is silent for %.1f s", now - self._heard)
            self.stale.emit(self._heard_at)
        if now - self._started >= self._restart_after:
            self._end()
            self._launch()
