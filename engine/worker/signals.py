"""A worker ignores the signals that ask it to end: its supervisor ends the run in good order.

A logout, a shutdown and a service manager signal every process of a run at once. A worker that
obeyed would be gone before the supervisor could ask it for a last checkpoint.
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
    """Ignore SIGTERM, SIGINT and SIGHUP from now on; call it once the supervisor is connected.

    Programs that this process starts, and its forked children, are ended by them as usual.
    """
    for number in _NUMBERS:
        signal.signal(number, _do_nothing)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_restore_defaults)


def terminate() -> None:
    """End this process at once, from any thread, whatever the other threads do.

    If the recipe handles SIGTERM itself, do nothing: the supervisor has sent that signal too.
    """
    if signal.getsignal(signal.SIGTERM) in (_do_nothing, signal.SIG_DFL):
        os._exit(TERMINATED)


def ignore() -> None:
    """Ignore the signals in a process that works for a worker, and ends with it."""
    for number in _NUMBERS:
        signal.signal(number, signal.SIG_IGN)


def _do_nothing(number: int, frame: FrameType | None) -> None:
    """Unlike SIG_IGN, a handler is not inherited by a program that is started."""


def _restore_defaults() -> None:
    for number in _NUMBERS:
        if signal.getsignal(number) is _do_nothing:
            signal.signal(number, signal.SIG_DFL)
