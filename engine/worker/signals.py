"""A worker ignores the signals that ask it to end, because its supervisor ends it.

A logout, a shutdown and a service manager signal all processes of a run at once. The supervisor
then asks the workers for a last checkpoint, so they must still run.
"""

from __future__ import annotations

import os
import signal
from types import FrameType

from engine.processes.process import END_SIGNALS, leave

TERMINATED = 78
"""Exit code of a worker that its supervisor ended at once."""


def ignore_in_worker() -> None:
    """Ignore SIGTERM, SIGINT and SIGHUP from now on; call it once the supervisor is connected.

    The signals still end programs that this process starts, and its forked children.
    """
    for number in END_SIGNALS:
        signal.signal(number, _do_nothing)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_restore_defaults)


def terminate() -> None:
    """End this process at once, from any thread.

    If the recipe handles SIGTERM itself, do nothing: the supervisor has sent that signal too.
    """
    if signal.getsignal(signal.SIGTERM) in (_do_nothing, signal.SIG_DFL):
        leave(TERMINATED)


def ignore_in_child() -> None:
    """Ignore the signals in a helper process of a worker; it ends together with the worker."""
    for number in END_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _do_nothing(number: int, frame: FrameType | None) -> None:
    """Do nothing. Programs that are started inherit SIG_IGN, but not a handler."""


def _restore_defaults() -> None:
    for number in END_SIGNALS:
        if signal.getsignal(number) is _do_nothing:
            signal.signal(number, signal.SIG_DFL)
