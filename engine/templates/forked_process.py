"""A worker that a template has forked, as its supervisor sees it."""

from __future__ import annotations

import contextlib
import os
from multiprocessing.connection import Connection, wait

import msgspec

from engine.system.process import UNKNOWN_EXIT
from engine.templates.protocol import Exited, Forked, receive

REPORT_SECONDS = 2.0
"""Longest wait for the template's report after a worker has ended."""


class ForkedProcess:
    """Like a `subprocess.Popen`, for a process that is not a child of this one."""

    def __init__(self, forked: Forked, connection: Connection) -> None:
        """Raises OSError on a system that cannot wait for such a process."""
        self.pid = forked.pid
        self._connection = connection
        self._end: int | None = None
        with contextlib.suppress(ProcessLookupError):  # it has ended already
            self._end = os.pidfd_open(forked.pid)

    def wait(self) -> int:
        """Wait until the process has ended, and return its exit code, or -n for the signal n.

        UNKNOWN_EXIT: a signal ended it, and the template that would know which is gone too. Call it
        once.
        """
        if self._end is not None:
            wait([self._end])
            os.close(self._end)
        code = UNKNOWN_EXIT
        with self._connection, contextlib.suppress(EOFError, OSError, msgspec.DecodeError):
            while self._connection.poll(REPORT_SECONDS):
                message = receive(self._connection)
                if isinstance(message, Exited):
                    code = message.code
                    if message.by_template:
                        break
        return code
