"""Runs the telemetry helper and turns its lines into device snapshots."""

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
    known_option,
    read_snapshot,
    write_requests,
)
from engine.telemetry.snapshot import Snapshot

_log = logging.getLogger(__name__)

STALE_AFTER = 3.0
"""If the helper writes no line for this many seconds, the figures in the window are old."""


class TelemetryReader(QObject):
    """Owns the helper process, which ends with the window because its standard input is closed."""

    snapshot = Signal(object)
    """engine.telemetry.snapshot.Snapshot, about every second."""

    stale = Signal(float)
    """Time of the last snapshot (seconds since the epoch): the helper has been silent since."""

    def __init__(
        self,
        helper: Sequence[str] = ARGUMENTS,
        *,
        stale_after: float = STALE_AFTER,
        restart_after: float = RESTART_PAUSE,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._helper = list(helper)
        self._newest: Snapshot | None = None
        self._stale_after = stale_after
        self._restart_after = restart_after
        self._started = 0.0
        self._last_line_at = 0.0
        self._snapshot_time = time.time()
        self._is_stale = False
        self._watching = True
        self._watching_since = 0.0
        self._detail = ""
        self._process = QProcess(self)
        self._process.setProgram(sys.executable)
        self._process.setWorkingDirectory(str(ROOT))
        self._process.setProcessChannelMode(QProcess.ProcessChannelMode.ForwardedErrorChannel)
        self._process.started.connect(self._send_requests)  # each new helper needs the requests
        self._process.readyReadStandardOutput.connect(self._read)
        self._watchdog = QTimer(self, interval=int(stale_after * 1000 / 4))
        self._watchdog.timeout.connect(self._check)

    def start(self) -> None:
        """Start the helper, and restart it when it fails."""
        self._launch()
        self._watchdog.start()

    def set_watching(self, watching: bool) -> None:
        """Set whether the window is visible; while it is not, the helper samples less often."""
        if watching and not self._watching:
            self._watching_since = time.monotonic()
        self._watching = watching
        self._send_requests()

    def set_detail(self, id: str) -> None:
        """Request the rates of PCIe and NVLink, which are slow to read, for the GPU with the UUID
        `id`; empty: for no GPU."""
        self._detail = id
        self._send_requests()

    def stop(self) -> None:
        """End the helper: close its input, then terminate it, then kill it."""
        self._watchdog.stop()
        self._process.closeWriteChannel()
        if self._process.state() is not QProcess.ProcessState.NotRunning:
            if not self._process.waitForFinished(1000):
                self._process.terminate()
            if not self._process.waitForFinished(1000):
                self._kill()

    def _send_requests(self) -> None:
        """Tell the helper whether the window is visible, and which GPU needs details."""
        if self._process.state() is QProcess.ProcessState.Running:
            requests = write_requests(watching=self._watching, detail=self._detail)
            self._process.write(requests)

    def _launch(self) -> None:
        self._started = self._last_line_at = time.monotonic()
        _log.info("starts the telemetry helper")
        self._process.setArguments([*self._helper, *known_option(self._newest)])
        self._process.start()

    def _kill(self) -> None:
        self._process.kill()
        self._process.waitForFinished(1000)

    def _read(self) -> None:
        while self._process.canReadLine():
            snapshot = read_snapshot(self._process.readLine().data())
            if snapshot is None:
                continue
            self._last_line_at = time.monotonic()
            self._snapshot_time, self._newest = snapshot.time, snapshot
            self._is_stale = False
            self.snapshot.emit(snapshot)

    def _check(self) -> None:
        now = time.monotonic()
        limit = self._stale_after if self._watching else self._stale_after + UNWATCHED_INTERVAL
        if now - max(self._last_line_at, self._watching_since) < limit:
            return
        if not self._is_stale:
            self._is_stale = True
            _log.info("the telemetry helper is silent for %.1f s", now - self._last_line_at)
            self.stale.emit(self._snapshot_time)
        if now - self._started >= self._restart_after:
            self._kill()
            self._launch()
