"""Asks `python -m engine.planning` for a race, a preflight, a memory estimate or a batch size."""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from typing import IO

import msgspec
from PySide6.QtCore import QObject, QTimer, Signal

from engine.planning.requests import (
    Answer,
    AskBatch,
    AskMemory,
    AskPreflight,
    AskRace,
    Refusal,
    Request,
)
from engine.planning.results import News, Result
from engine.processes import children
from engine.processes.process import (
    ON_POSIX,
    PROJECT,
    end_group,
    module_environment,
    signal_name,
)

_log = logging.getLogger(__name__)

ARGUMENTS = ("-P", "-m", "engine.planning")
"""Of the Python interpreter. -P: it must not import a file of the user in the place of ours."""

KILL_AFTER = 60.0
"""Seconds that a process has to end its workers and itself, once its input is closed."""

CLOSE_SECONDS = 3.0
"""Time for the same when the window closes; then it goes on by itself, and the window does not
wait."""

_LAST_LINES = 3
_LAST_BYTES = 4096

Kind = type[AskRace] | type[AskPreflight] | type[AskMemory] | type[AskBatch]

_decode = msgspec.json.Decoder(Answer).decode


class Planning(QObject):
    """Measures one request at a time, in a process of its own; the others wait, one of a kind.

    Two at once would disturb each other's figures. A newer request takes the place of an older one
    of its kind, of which nothing more is told.
    """

    begun = Signal(object)
    """The Request that is measured from now on."""

    news = Signal(object, object)
    """The Request, and a piece of News."""

    found = Signal(object, object)
    """The Request, and its Result: also that of one that was stopped, as far as it came."""

    refused = Signal(object, str)
    """The Request, and why there is no result, in sentences."""

    ended = Signal(object)
    """The Request is no longer measured, and does not wait: after `found` or `refused`, or because
    it was stopped or replaced."""

    _answered = Signal(object, object)
    """A _Process and its Answer, as another thread emits it."""

    _left = Signal(object, int)
    """A _Process that has ended, and its exit code, as another thread emits it."""

    def __init__(self, arguments: Sequence[str] = ARGUMENTS, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._arguments = tuple(arguments)
        self._process: _Process | None = None
        self._waiting: dict[Kind, Request] = {}
        self._is_closing = False
        self._answered.connect(self._hear)
        self._left.connect(self._end)

    @property
    def measured(self) -> Request | None:
        """What is measured now."""
        process = self._process
        if process is None or process.is_replaced or self._is_closing:
            return None
        return process.request

    def is_asked(self, kind: Kind) -> bool:
        """Whether a request of this kind is measured now, or waits."""
        return kind in self._waiting or isinstance(self.measured, kind)

    def ask(self, request: Request) -> None:
        """Measure `request` as soon as nothing else is measured."""
        if self._is_closing:
            return
        kind = type(request)
        if (older := self._waiting.pop(kind, None)) is not None:
            self.ended.emit(older)
        self._waiting[kind] = request
        process = self._process
        if process is None:
            self._begin_next()
        elif isinstance(process.request, kind) and not process.is_replaced:
            process.is_replaced = True
            self.ended.emit(process.request)
            self._cancel(process)

    def stop(self, kind: Kind) -> None:
        """End what is measured of this kind, with what it has found; forget one that waits."""
        if (waiting := self._waiting.pop(kind, None)) is not None:
            self.ended.emit(waiting)
        if self._process is not None and isinstance(self._process.request, kind):
            self._cancel(self._process)

    def shut_down(self) -> None:
        """End the process, which ends its workers, because the window closes."""
        self._is_closing = True
        self._waiting.clear()
        if (process := self._process) is not None:
            process.close_input()
            process.wait(CLOSE_SECONDS)

    def _begin_next(self) -> None:
        while self._process is None and self._waiting and not self._is_closing:
            request = self._waiting.pop(next(iter(self._waiting)))
            try:
                process = _Process(request, self._arguments)
            except OSError as error:
                text = self.tr("Nothing was measured: the process could not be started ({why}).")
                self.refused.emit(request, text.format(why=error.strerror or error))
                self.ended.emit(request)
                continue
            self._process = process
            _log.info("measures: %s, pid %d", type(request).__name__, process.pid)
            follow = threading.Thread(target=self._follow, args=(process,), daemon=True)
            follow.start()
            self.begun.emit(request)

    def _cancel(self, process: _Process) -> None:
        process.is_cancelled = True
        process.close_input()
        QTimer.singleShot(round(KILL_AFTER * 1000), self, lambda: self._kill(process))

    def _kill(self, process: _Process) -> None:
        if self._process is process:
            _log.warning("pid %d has not ended within %g s: killed", process.pid, KILL_AFTER)
            process.kill()

    def _follow(self, process: _Process) -> None:
        """Read the answers of `process` until it ends; runs in a thread of its own."""
        for line in process.lines():
            try:
                answer: Answer = _decode(line)
            except ValueError:  # what a library prints
                _log.info("the process that measures printed: %r", line[:200])
                continue
            self._emit_if_open(self._answered, process, answer)
        self._emit_if_open(self._left, process, process.wait_and_close())

    def _emit_if_open(self, signal: object, *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the window is gone
            if not self._is_closing:
                signal.emit(*arguments)  # type: ignore[attr-defined]  # PySide6 types it as Signal

    def _hear(self, process: _Process, answer: Answer) -> None:
        if process.is_replaced or self._is_closing:
            return
        request = process.request
        match answer:
            case Refusal(text):
                process.has_answered = True
                self.refused.emit(request, text)
            case _ if isinstance(answer, News):
                self.news.emit(request, answer)
            case _:
                assert isinstance(answer, Result)
                process.has_answered = True
                self.found.emit(request, answer)

    def _end(self, process: _Process, exit_code: int) -> None:
        if process is not self._process or self._is_closing:
            return
        self._process = None
        if not process.is_replaced:
            if not (process.has_answered or process.is_cancelled):
                self.refused.emit(process.request, self._crash(exit_code, process.last_words))
            self.ended.emit(process.request)
        self._begin_next()

    def _crash(self, exit_code: int, last_words: str) -> str:
        """Return that the process has ended without a result, and what it said last."""
        how = signal_name(exit_code) or self.tr("exit code {code}").format(code=exit_code)
        text = self.tr("The process that measures has ended without a result ({how}).")
        return " ".join(filter(None, (text.format(how=how), last_words)))


class _Process:
    """One process, which measures one request."""

    def __init__(self, request: Request, arguments: Sequence[str]) -> None:
        """Start it and hand it the request. Raises OSError."""
        self.request = request
        self.is_replaced = self.is_cancelled = self.has_answered = False
        self.last_words = ""
        """The last lines that it wrote to its standard error, once it has ended."""

        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # closed with this object
        self._process = children.start(
            [sys.executable, *arguments],
            cwd=PROJECT,
            env=module_environment(os.environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            **({"process_group": 0} if ON_POSIX else {}),  # Ctrl-C is for the window alone
        )
        with contextlib.suppress(OSError):  # it has ended already, and its errors say why
            self._input.write(msgspec.json.encode(request) + b"\n")
            self._input.flush()

    @property
    def pid(self) -> int:
        return int(self._process.pid)

    @property
    def _input(self) -> IO[bytes]:
        assert self._process.stdin is not None
        return self._process.stdin

    def lines(self) -> IO[bytes]:
        """Return its output, line by line."""
        assert self._process.stdout is not None
        return self._process.stdout

    def close_input(self) -> None:
        """Cancel what it measures: it ends its workers, says what it has found, and ends."""
        with contextlib.suppress(OSError):
            self._input.close()

    def kill(self) -> None:
        """Kill it, and what is in its group."""
        end_group(self._process, kill=True)

    def wait(self, seconds: float | None = None) -> int:
        """Wait for its end, at most `seconds`; return its exit code, or 0 if it goes on."""
        try:
            return int(self._process.wait(seconds))
        except subprocess.TimeoutExpired:
            _log.info("pid %d goes on without the window until its workers have ended", self.pid)
            return 0

    def wait_and_close(self) -> int:
        """Wait for its end, keep its last words, and close its pipes; return its exit code."""
        code = self.wait()
        with self._errors as errors, contextlib.suppress(OSError):
            size = errors.seek(0, os.SEEK_END)
            errors.seek(max(0, size - _LAST_BYTES))
            lines = errors.read().decode(errors="replace").split("\n")
            said = [line.strip() for line in lines if line.strip()]
            self.last_words = "\n".join(said[-_LAST_LINES:])
        self.lines().close()
        self.close_input()
        return code
