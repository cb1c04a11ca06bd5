"""The one funnel through which work that may block leaves the GUI thread."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from PySide6.QtCore import QObject, Signal

T = TypeVar("T")

MOST_AT_ONCE = 4
"""A slow start of a run must hold up neither a Stop nor the list of runs."""


class Background(QObject):
    """Runs functions on a thread pool and hands their outcome back on the GUI thread."""

    _finished = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        # Not a QThreadPool: with QRunnable.create() PySide6 6.11 crashed in the garbage collector.
        self._pool = ThreadPoolExecutor(MOST_AT_ONCE, thread_name_prefix="background")
        self._over = False
        self._finished.connect(self._hand_back)

    def run(
        self,
        work: Callable[[], T],
        success: Callable[[T], None],
        failure: Callable[[Exception], None],
    ) -> None:
        """Call `work` on another thread; then, on this one, `success` with its result or `failure`
        with what it raised. `failure` raises again what it does not know."""

        def outcome() -> Callable[[], None]:
            try:
                result = work()
            except Exception as error:
                raised = error
                return lambda: failure(raised)
            return lambda: success(result)

        self._pool.submit(lambda: self._finished.emit(outcome()))

    def finish(self) -> None:
        """Wait until no work is in flight (seconds at the most); no outcome is handed back."""
        self._over = True
        self._pool.shutdown(cancel_futures=True)

    def _hand_back(self, outcome: Callable[[], None]) -> None:
        if not self._over:
            outcome()
