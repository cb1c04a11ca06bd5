"""The process `python -m engine.planning` while it measures: its answers, and its end."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from typing import IO, NamedTuple

from engine.planning.requests import Answer, Request, decode_answer, encode_line
from engine.processes import children
from engine.processes.process import ON_POSIX, PROJECT, end_group, module_environment

_log = logging.getLogger(__name__)

ARGUMENTS = ("-P", "-m", "engine.planning")
"""Of the Python interpreter. -P: it must not import a file of the user in the place of ours."""

KILL_AFTER = 60.0
"""Seconds that the process has to end its workers and itself, once it is cancelled."""

_LAST_LINES = 3
_LAST_BYTES = 4096


class MeasuringEnd(NamedTuple):
    """How a measurement has ended."""

    exit_code: int = 0
    last_words: str = ""
    """The last lines that the process wrote to its standard error."""

    why: str = ""
    """Why there is no result, in sentences; empty: the process has ended."""

    number: int = 0
    """That of the result which is kept; 0: none is."""

    not_kept: str = ""
    """Why the result could not be kept, in a sentence."""

    @property
    def sentence(self) -> str:
        """Why there is no result, if there is none."""
        if self.why:
            return self.why
        if self.exit_code < 0:
            name = signal.Signals(-self.exit_code).name
            return f"The process that measured was ended by {name}."
        return f"The process that measured has ended without a result. {self.last_words}".rstrip()


class MeasuringProcess:
    """One process, which measures one request. One thread reads; any thread may cancel."""

    def __init__(self, request: Request) -> None:
        """Start it and hand it the request. Raises OSError."""
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # closed with this object
        self._killer = threading.Timer(KILL_AFTER, self._kill)
        self._killer.daemon = True
        self._cancelling = threading.Lock()
        self._is_cancelled = False
        self._process = children.start(
            [sys.executable, *ARGUMENTS],
            cwd=PROJECT,
            env=module_environment(os.environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            **({"process_group": 0} if ON_POSIX else {}),  # Ctrl-C is for the asking process alone
        )
        _log.info("pid %d measures: %s", self.pid, type(request).__name__)
        with contextlib.suppress(OSError):  # it has ended already, and its errors say why
            self._input.write(encode_line(request))
            self._input.flush()

    @property
    def pid(self) -> int:
        return int(self._process.pid)

    @property
    def _input(self) -> IO[bytes]:
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def _output(self) -> IO[bytes]:
        assert self._process.stdout is not None
        return self._process.stdout

    def answers(self) -> Iterator[Answer]:
        """Yield what it answers, until its output ends."""
        for line in self._output:
            try:
                answer = decode_answer(line)
            except ValueError:  # what a library prints
                _log.info("the process that measures printed: %r", line[:200])
                continue
            yield answer

    def cancel(self) -> None:
        """Let it end its workers, say what it has found, and end; it is killed after KILL_AFTER."""
        with self._cancelling:
            if self._is_cancelled:
                return
            self._is_cancelled = True
            with contextlib.suppress(OSError):
                self._input.close()
            self._killer.start()

    def wait(self, seconds: float | None = None) -> int:
        """Wait for its end, at most `seconds`; return its exit code, or 0 if it goes on."""
        try:
            return int(self._process.wait(seconds))
        except subprocess.TimeoutExpired:
            _log.info("pid %d goes on by itself until its workers have ended", self.pid)
            return 0

    def wait_and_close(self) -> MeasuringEnd:
        """Wait for its end, close its pipes, and return how it has ended."""
        code = self.wait()
        self._killer.cancel()
        last_words = ""
        with self._errors as errors, contextlib.suppress(OSError):
            size = errors.seek(0, os.SEEK_END)
            errors.seek(max(0, size - _LAST_BYTES))
            lines = errors.read().decode(errors="replace").split("\n")
            said = [line.strip() for line in lines if line.strip()]
            last_words = "\n".join(said[-_LAST_LINES:])
        self._output.close()
        with self._cancelling, contextlib.suppress(OSError):
            self._is_cancelled = True
            self._input.close()
        return MeasuringEnd(code, last_words)

    def _kill(self) -> None:
        if self._process.poll() is not None:
            return
        _log.warning("pid %d has not ended within %g s: killed", self.pid, KILL_AFTER)
        end_group(self._process, kill=True)
