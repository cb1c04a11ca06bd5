"""A worker that a template has forked, as its supervisor sees it."""

from __future__ import annotations

import os
from multiprocessing.connection import Connection, wait

import msgspec

from engine.system.process import UNKNOWN_EXIT, start_time
from engine.templates.protocol import Exited, Forked, Run, receive, send

REPORT_SECONDS = 2.0
"""Longest wait for the template's report after a worker has ended."""


class ForkedProcess:
    """Like a `subprocess.Popen`, for a process that is not a child of this one."""

    def __init__(self, forked: Forked, connection: Connection) -> None:
        """Let the worker run, which has waited for this. Raises OSError if it cannot be followed
        from here, or has ended."""
        self.pid = forked.pid
        self._connection = connection
        self._end = os.pidfd_open(forked.pid)
        try:
            if start_time(forked.pid) != forked.created_at:
                raise ProcessLookupError("another process has its pid by now")
            send(connection, Run())
        except OSError:
            os.close(self._end)
            raise

    def wait(self) -> int:
        """Wait until the process has ended, and return its exit code, or -n for the signal n.

        UNKNOWN_EXIT: a signal ended it, and the template that would know which is gone too. Call it
        once.
        """
        wait([self._end])
        os.close(self._end)
        code = UNKNOWN_EXIT
        with self._connection:
            try:
                while self._connection.poll(REPORT_SECONDS):
                    message = receive(self._connection)
                    if isinstance(message, Exited):
                        code = message.code
                        if message.by_template:
                            break
            except (EOFError, OSError, msgspec.DecodeError):
                pass  # the template has ended
        return code
