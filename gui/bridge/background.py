"""Runs work that may block on a thread pool, so that the GUI thread never waits."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from PySide6.QtCore import QObject, Signal

from gui.bridge.machines.machines import Machines

T = TypeVar("T")

MAX_THREADS = 4
"""More than one, so that the slow start of a run does not delay a Stop or the list of runs."""


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
        failure: Callable[[Exception], None],
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
