"""Keeps the machine from going to sleep by itself, on Linux, macOS and Windows."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import sys
import threading

from engine.processes import children

_CONTINUOUS, _SYSTEM_REQUIRED = 0x80000000, 0x00000001  # of SetThreadExecutionState on Windows
END_SECONDS = 1.0
"""Seconds that the helper process has to end before it is killed."""


class SleepInhibitor:
    """Keeps the machine awake from `keep(True)` to `keep(False)`, both called by one thread.

    The machine may sleep again when this process ends, even if it is killed. On a system that has
    no such function or refuses it, the calls do nothing.
    """

    def __init__(self, why: str) -> None:
        """`why` is the reason that the desktop shows, such as `run 7 trains`."""
        self._why = why
        self._awake = False
        self._helper: subprocess.Popen[bytes] | None = None

    def keep(self, awake: bool) -> None:
        """Keep the machine awake from now on, or allow it to sleep again."""
        if awake == self._awake:
            return
        self._awake = awake
        if sys.platform == "win32":
            state = _CONTINUOUS | _SYSTEM_REQUIRED if awake else _CONTINUOUS
            ctypes.windll.kernel32.SetThreadExecutionState(state)
        elif awake:
            self._start_helper()
        elif self._helper is not None:
            _end(self._helper)
            self._helper = None

    def _start_helper(self) -> None:
        # The pipe closes when this process ends, even by SIGKILL: then `cat` ends, and the lock of
        # systemd-inhibit with it.
        linux = ["systemd-inhibit", "--what=sleep:idle", "--who=Traindeck", f"--why={self._why}"]
        helper = {
            "linux": [*linux, "--mode=block", "cat"],
            "darwin": ["caffeinate", "-i", "-w", str(os.getpid())],
        }.get(sys.platform)
        if helper is None:
            return
        with contextlib.suppress(OSError):  # not installed
            self._helper = children.start(
                helper, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, process_group=0
            )
            # If the system refuses, the helper ends at once: this thread reaps it.
            threading.Thread(target=self._helper.wait, daemon=True, name="reap").start()


def _end(helper: subprocess.Popen[bytes]) -> None:
    assert helper.stdin is not None
    helper.stdin.close()
    helper.terminate()
    try:
        helper.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        helper.kill()
        helper.wait()
