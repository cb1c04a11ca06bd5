"""A worker that a template has forked, as its supervisor sees it."""

from __future__ import annotations

import contextlib
import os
from multiprocessing.connection import Connection, wait

import msgspec

from engine.processes.process import UNKNOWN_EXIT, exit_code_of, start_time
from engine.templates.protocol import Exited, Forked, Run, receive, send

REPORT_SECONDS = 2.0
"""Longest wait for the template's report after a worker has ended."""


class ForkedProcess:
    """Like a `subprocess.Popen`, for a process that is not a child of this one."""

    def __init__(self, forked: Forked, connection: Connection) -> None:
        """Let the worker run, which has waited for this. Raises OSError if it cannot be followed
        from here, or has ended."""
        self.pid = forked.pid
        self._created_at = forked.created_at
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

        UNKNOWN_EXIT: it did not leave by itself, and the template that would know why is gone or
        stopped, and the kernel does not tell. Call it once.
        """
        wait([self._end])
        try:
            code = exit_code_of(self.pid, self._created_at, self._end)
            if code is None:
                code = self._reported_code()
            if code == UNKNOWN_EXIT:  # the parent of the orphan has waited for it meanwhile
                late = exit_code_of(self.pid, self._created_at, self._end)
                code = code if late is None else late
        finally:
            os.close(self._end)
            self._connection.close()
        return code

    def _reported_code(self) -> int:
        """Wait for the report of the template, or else take that of the worker."""
        code = UNKNOWN_EXIT
        with contextlib.suppress(EOFError, OSError, msgspec.DecodeError):  # the template has ended
            while self._connection.poll(REPORT_SECONDS):
                message = receive(self._connection)
                if isinstance(message, Exited):
                    code = message.code
                    if message.by_template:
                        break
        return code
