"""Starts the telemetry helper, sends it requests, reads its snapshots and ends it."""

from __future__ import annotations

import contextlib
import logging
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from engine.telemetry.given_gpus import given_gpus
from engine.telemetry.snapshot import DeviceSnapshot, Request, Snapshot

_log = logging.getLogger(__name__)

ARGUMENTS = ("-m", "engine.telemetry.helper")
"""Of the Python interpreter, with ROOT as working directory."""

ROOT = Path(__file__).parents[2]

RESTART_PAUSE = 30.0
"""Seconds before a helper that ended unexpectedly, or hangs, is started again."""

END_SECONDS = 0.5
"""Seconds to wait for the end of the helper: after closing its input, SIGTERM, and SIGKILL."""

SNAPSHOT_SECONDS = 30.0
"""Longest wait for one snapshot: without persistence mode, the driver initialises each card first,
which takes up to 3 s."""

_decode = msgspec.json.Decoder(Snapshot).decode


def read_snapshot(line: bytes | bytearray | memoryview) -> Snapshot | None:
    """Return the snapshot in a line of the helper's output; None for output of a library."""
    try:
        return _decode(line)
    except ValueError:
        return None


def write_requests(*, watching: bool, detail: str) -> bytes:
    """Return lines for the helper's input.

    `watching`: whether a window shows the snapshots and needs the full rate; `detail`: the UUID of
    the GPU whose traffic (PCIe, NVLink) to measure, or an empty string.
    """
    requests = (Request(watching=watching), Request(detail=detail))
    return b"".join(msgspec.json.encode(request) + b"\n" for request in requests)


def known_option(snapshot: Snapshot | None) -> list[str]:
    """Return the options with which a new helper knows the GPUs of the last `snapshot`."""
    known = snapshot.known_gpus() if snapshot else ()
    return ["--known", msgspec.json.encode(known).decode()] if known else []


def snapshot_once(timeout: float = SNAPSHOT_SECONDS) -> Snapshot:
    """Return one snapshot of all devices, taken by a new helper process; raise nothing.

    If the driver does not answer within `timeout` seconds or crashes the helper, the snapshot has
    no GPUs and its note tells the reason.
    """
    helper = _start("--once", stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        output, _ = helper.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        abandon(helper)
        return _without_gpus(f"No driver of a GPU answers (asked for {timeout:g} s).")
    return read_snapshot(output) or _without_gpus(
        "The drivers of GPUs cannot be asked: the telemetry helper ended with exit code "
        f"{helper.returncode}."
    )


def gpu_uuids(timeout: float = 10.0) -> tuple[str, ...]:
    """Return the UUIDs of the GPUs, or of their MIG slices, that a run of this process can use."""
    return given_gpus(snapshot_once(timeout)).uuids


def abandon(helper: subprocess.Popen[bytes]) -> None:
    """Kill the helper without a long wait: SIGKILL does not end it while the driver hangs."""
    helper.kill()
    assert helper.stdout is not None
    helper.stdout.close()
    try:
        helper.wait(timeout=END_SECONDS)
    except subprocess.TimeoutExpired:
        helper.returncode = -9  # Popen must not warn about a process that still runs


class TelemetryStream:
    """Runs the telemetry helper and passes on its snapshots, from its own thread."""

    def __init__(self, on_snapshot: Callable[[Snapshot], None], interval: float = 1.0) -> None:
        """Start the helper, which samples every `interval` seconds. Raises OSError."""
        self._on_snapshot = on_snapshot
        self._interval = interval
        self._closing = threading.Event()
        self._starting = threading.Lock()
        self._newest: Snapshot | None = None
        self._detail = ""
        self._helper = self._start_helper()
        threading.Thread(target=self._read, daemon=True, name="telemetry").start()

    def set_detail(self, id: str) -> None:
        """Ask for the rates of PCIe and NVLink of the GPU with the UUID `id`; empty: of none."""
        with self._starting:
            self._detail = id
            self._ask(self._helper)

    def close(self) -> None:
        """End the helper within 2 s, even if it hangs in the driver. May be called twice."""
        with self._starting:
            self._closing.set()
            helper = self._helper
        assert helper.stdin is not None
        helper.stdin.close()
        for send_signal in (helper.terminate, helper.kill):
            try:
                helper.wait(END_SECONDS)
                return
            except subprocess.TimeoutExpired:
                send_signal()
        # A helper that hangs in the driver ends when the driver call returns.
        with contextlib.suppress(subprocess.TimeoutExpired):
            helper.wait(END_SECONDS)

    def _start_helper(self) -> subprocess.Popen[bytes]:
        known = known_option(self._newest)
        interval = ("--interval", str(self._interval))
        helper = _start(*interval, *known, stdin=subprocess.PIPE, stderr=None)
        _log.info("started the telemetry helper, pid %d", helper.pid)
        if self._detail:
            self._ask(helper)
        return helper

    def _ask(self, helper: subprocess.Popen[bytes]) -> None:
        assert helper.stdin is not None
        with contextlib.suppress(OSError, ValueError):  # it has ended; the next one is asked
            helper.stdin.write(write_requests(watching=True, detail=self._detail))
            helper.stdin.flush()

    def _read(self) -> None:
        while True:
            with self._helper.stdout as lines:  # type: ignore[union-attr]  # it is a pipe
                for line in lines:
                    snapshot = read_snapshot(line)
                    if snapshot is not None and not self._closing.is_set():
                        self._newest = snapshot
                        self._on_snapshot(snapshot)
            if self._closing.wait(RESTART_PAUSE):
                return
            _log.info("the telemetry helper ended by itself: it is started again")
            self._helper.wait()  # it closed its output, so it has ended
            with self._starting:
                if self._closing.is_set():
                    return
                self._helper.stdin.close()  # type: ignore[union-attr]  # it is a pipe
                self._helper = self._start_helper()


def _start(*options: str, stdin: int, stderr: int | None) -> subprocess.Popen[bytes]:
    command = [sys.executable, *ARGUMENTS, *options]
    return subprocess.Popen(command, cwd=ROOT, stdin=stdin, stdout=subprocess.PIPE, stderr=stderr)


def _without_gpus(note: str) -> Snapshot:
    name = platform.processor() or platform.machine() or "CPU"
    cpu = DeviceSnapshot(id="cpu", kind="cpu", label="CPU", name=name)
    return Snapshot(time=time.time(), devices=(cpu,), gpu_note=note)
