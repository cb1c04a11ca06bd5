"""Which devices this machine has, asked once."""

from __future__ import annotations

import platform
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from engine.telemetry.snapshot import DeviceSnapshot, Snapshot

HELPER = (sys.executable, "-m", "engine.telemetry.helper")
ROOT = Path(__file__).parent.parent.parent
"""Where `python -m engine.telemetry` finds the engine."""


def snapshot_once(timeout: float = 10.0) -> Snapshot:
    """One snapshot of all devices, taken by a process of its own; nothing is raised.

    A driver that does not answer within `timeout` seconds, or that takes the process along, costs
    the GPUs only: the note says what happened.
    """
    helper = subprocess.Popen(
        [*HELPER, "--once"],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        output, _ = helper.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        abandon(helper)
        return _without_gpus(f"The NVIDIA driver does not answer (asked for {timeout:g} s).")
    try:
        return msgspec.json.decode(output, type=Snapshot)
    except ValueError:
        return _without_gpus(
            f"The NVIDIA driver cannot be asked: the telemetry helper ended with exit code "
            f"{helper.returncode}."
        )


def gpu_uuids(timeout: float = 10.0) -> tuple[str, ...]:
    """The UUIDs of the GPUs, or of their slices, that a run can use, in PCI order."""
    return snapshot_once(timeout).gpus_to_choose()


def abandon(helper: subprocess.Popen[bytes]) -> None:
    """End the helper, but do not wait for it: inside a wedged driver not even SIGKILL ends it."""
    helper.kill()
    assert helper.stdout is not None
    helper.stdout.close()
    try:
        helper.wait(timeout=0.5)
    except subprocess.TimeoutExpired:
        helper.returncode = -9  # nobody will wait for it any more


def _without_gpus(note: str) -> Snapshot:
    name = platform.processor() or platform.machine() or "CPU"
    cpu = DeviceSnapshot(id="cpu", kind="cpu", label="CPU", name=name)
    return Snapshot(time=time.time(), devices=(cpu,), gpu_note=note)
