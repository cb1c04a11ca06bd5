"""Threads for what may block, so that the GUI thread never waits, and readings one at a time."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from PySide6.QtCore import QObject, Signal

from gui.bridge.machines.machines import Machines

T = TypeVar("T")

MAX_THREADS = 4
"""More than one, so that the slow start of a run does not delay a Stop or the list of runs."""


def unexpected(error: Exception) -> None:
    """Raise an error that the work must not have."""
    raise error


class Background(QObject):
    """Runs functions on a thread pool and reports their results on the GUI thread."""

    _finished = Signal(object)

    def __init__(self, parent: QObject | None = None, machines: Machines | None = None) -> None:
        """`machines`: what the work may ask; None: only this machine."""
        super().__init__(parent)
        self.machines = machines or Machines(parent=self)
        # Not a QThreadPool: with QRunnable.create() PySide6 6.11 crashed in the garbage collector.
        self._pool = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="background")
        self._is_finished = False
        self._finished.connect(self._deliver)

    def run(
        self,
        work: Callable[[], T],
        success: Callable[[T], None],
        failure: Callable[[Exception], None] = unexpected,
    ) -> None:
        """Call `work` on another thread; then call `success` with its result on the GUI thread, or
        `failure` with its exception. `failure` must re-raise unexpected exceptions."""

        def outcome() -> Callable[[], None]:
            try:
                result = work()
            except Exception as error:
                raised = error
                return lambda: failure(raised)
            return lambda: success(result)

        self._pool.submit(lambda: self._finished.emit(outcome()))

    def finish(self) -> None:
        """Wait until the running work has ended (a few seconds at most); drop all results."""
        self._is_finished = True
        self._pool.shutdown(cancel_futures=True)

    def _deliver(self, outcome: Callable[[], None]) -> None:
        if not self._is_finished:
            outcome()


class Reading(Generic[T]):
    """Reads one thing at a time in the background, and then once more if it was asked meanwhile."""

    def __init__(
        self,
        background: Background,
        success: Callable[[T], None],
        failure: Callable[[Exception], None] = unexpected,
    ) -> None:
        """`success` and `failure` are called as by `Background.run`."""
        self._background = background
        self._success, self._failure = success, failure
        self._next: Callable[[], T] | None = None
        self.is_busy = False
        """Whether something is being read."""

    def ask(self, read: Callable[[], T]) -> None:
        """Call `read`, after what is being read now; of several that wait, only the newest."""
        if self.is_busy:
            self._next = read
            return
        self.is_busy = True
        self._background.run(read, self._succeed, self._fail)

    def _succeed(self, result: T) -> None:
        self._end(lambda: self._success(result))

    def _fail(self, error: Exception) -> None:
        self._end(lambda: self._failure(error))

    def _end(self, tell: Callable[[], None]) -> None:
        self.is_busy = False
        following, self._next = self._next, None
        try:
            tell()
        finally:
            if following is not None and not self.is_busy:  # else something newer is being read
                self.ask(following)
