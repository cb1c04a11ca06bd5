"""A live stream of snapshots from the telemetry helper."""

from __future__ import annotations

import logging
import subprocess
import threading
from collections.abc import Callable

import msgspec

from engine.telemetry.probe import HELPER, ROOT
from engine.telemetry.snapshot import Snapshot

_log = logging.getLogger(__name__)

RESTART_PAUSE = 30.0
"""Seconds until a helper that ended by itself (a driver can crash it) gets a successor."""

LONGEST_GOODBYE = 0.5
"""Seconds that the helper has for each of: leaving by itself, being terminated, being killed."""

_decode = msgspec.json.Decoder(Snapshot).decode


class TelemetryStream:
    """Runs the telemetry helper and hands on what it prints, from a thread of its own."""

    def __init__(self, on_snapshot: Callable[[Snapshot], None], interval: float = 1.0) -> None:
        """Start the helper, which samples every `interval` seconds. Raises OSError."""
        self._on_snapshot = on_snapshot
        self._interval = interval
        self._closing = threading.Event()
        self._starting = threading.Lock()
        self._helper = self._start_helper()
        threading.Thread(target=self._read, daemon=True, name="telemetry").start()

    def close(self) -> None:
        """End the helper; at most 2 s, even if it hangs in the driver. May be called twice."""
        with self._starting:
            self._closing.set()
            helper = self._helper
        assert helper.stdin is not None
        helper.stdin.close()
        for insist in (helper.terminate, helper.kill, _nothing):
            try:
                helper.wait(LONGEST_GOODBYE)
                return
            except subprocess.TimeoutExpired:
                insist()

    def _start_helper(self) -> subprocess.Popen[bytes]:
        helper = subprocess.Popen(
            [*HELPER, "--interval", str(self._interval)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        _log.info("started the telemetry helper, pid %d", helper.pid)
        return helper

    def _read(self) -> None:
        while True:
            with self._helper.stdout as lines:  # type: ignore[union-attr]  # it is a pipe
                for line in lines:
                    if line.endswith(b"\n") and not self._closing.is_set():
                        self._on_snapshot(_decode(line))
            if self._closing.wait(RESTART_PAUSE):
                return
            _log.info("the telemetry helper ended by itself: it is started again")
            self._helper.wait()  # it closed its output, so it has ended
            with self._starting:
                if self._closing.is_set():
                    return
                self._helper.stdin.close()  # type: ignore[union-attr]  # it is a pipe
                self._helper = self._start_helper()


def _nothing() -> None:
    """Not even SIGKILL ended it: it hangs in the driver, and goes when the driver lets it."""
