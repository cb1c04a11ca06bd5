"""What the system asks of a worker is left to its supervisor, which ends a run in good order.

A logout, a shutdown and a service manager signal every process of a run at once. A worker that
obeyed would be gone before the checkpoint that its supervisor asks it for.
"""

from __future__ import annotations

import os
import signal
from types import FrameType

TERMINATED = 78
"""Exit code of a worker that its supervisor told to end at once."""

_NUMBERS = [
    signal.Signals[name]
    for name in ("SIGTERM", "SIGINT", "SIGHUP")
    if name in signal.Signals.__members__  # Windows has no SIGHUP
]


def leave_to_supervisor() -> None:
    """From now on SIGTERM, SIGINT and SIGHUP do nothing; call it once the supervisor is connected.

    Programs that this process starts take them as usual, and so do forked children.
    """
    for number in _NUMBERS:
        signal.signal(number, _nothing)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_as_usual)


def terminate() -> None:
    """End this process at once, as SIGTERM would have; from any thread, whatever the others do.

    A recipe that handles SIGTERM itself got that signal, too, and is left to it.
    """
    if signal.getsignal(signal.SIGTERM) in (_nothing, signal.SIG_DFL):
        os._exit(TERMINATED)


def ignore() -> None:
    """For a process that works for a worker and ends with it."""
    for number in _NUMBERS:
        signal.signal(number, signal.SIG_IGN)


def _nothing(number: int, frame: FrameType | None) -> None:
    """Not SIG_IGN: a program that is started would inherit that."""


def _as_usual() -> None:
    for number in _NUMBERS:
        if signal.getsignal(number) is _nothing:
            signal.signal(number, signal.SIG_DFL)
