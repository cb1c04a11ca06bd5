"""The other processes of a soak test: a real window, and processes that should have ended."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil

from engine.processes.process import PROJECT
from engine.system import paths

GONE_WITHIN = 15.0
"""Seconds after the end of a run in which all its processes must be gone."""

OVER_WITHIN = 90.0
"""Seconds after a stop or the loss of a process within which a run must be over."""


def open_window(run_id: str) -> subprocess.Popen[bytes]:
    """Start a window, and wait until it shows the only run."""
    environment = os.environ | {"QT_QPA_PLATFORM": "offscreen", "PYTHONPATH": str(PROJECT)}
    window = subprocess.Popen([sys.executable, "main.py"], cwd=PROJECT, env=environment)
    deadline = time.monotonic() + OVER_WITHIN
    while run_id not in {
        Path(file.path).parent.name for file in psutil.Process(window.pid).open_files()
    }:
        assert time.monotonic() < deadline, "the window does not show the run"
        time.sleep(0.1)
    return window


def left_of(processes: list[psutil.Process], seconds: float) -> list[str]:
    """Those of `processes` that live after `seconds`: pid and command.

    A zombie has ended; whether it is reaped is up to the parent of a killed template.
    """
    _, alive = psutil.wait_procs(processes, timeout=0)
    deadline = time.monotonic() + seconds
    while alive and time.monotonic() < deadline:
        _, alive = psutil.wait_procs([p for p in alive if not _is_zombie(p)], timeout=0.1)
    return [_described(process) for process in alive if not _is_zombie(process)]


def _is_zombie(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def _described(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return f"{process.pid} of {process.ppid()}: {' '.join(process.cmdline())[-200:]}"
    return str(process.pid)


def left_in(home: str) -> list[psutil.Process]:
    """Other processes of the runs in `home`; waits a while for their end."""
    deadline = time.monotonic() + GONE_WITHIN
    while (left := [p for p in psutil.process_iter() if _is_of(p, home)]) and (
        time.monotonic() < deadline
    ):
        time.sleep(0.1)
    return left


def _is_of(process: psutil.Process, home: str) -> bool:
    try:
        environment: dict[str, str] = process.environ()
        return environment.get(paths.HOME_VARIABLE) == home and process.pid != os.getpid()
    except psutil.Error:
        return False  # gone, a zombie, or another user's
