"""The one funnel through which work that may block leaves the GUI thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from PySide6.QtCore import QObject, QRunnable, QThreadPool, Signal

T = TypeVar("T")

LONGEST_WAIT_MS = 25_000
"""How long `finish` waits for work in flight: a little more than the longest start of a run."""


class Background(QObject):
    """Runs functions on a thread pool and hands their outcome back on the GUI thread."""

    _finished = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._pool = QThreadPool(self)
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

        self._pool.start(QRunnable.create(lambda: self._finished.emit(outcome())))

    def finish(self) -> None:
        """Wait until no work is in flight; its outcome is no longer handed back."""
        self._over = True
        self._pool.waitForDone(LONGEST_WAIT_MS)

    def _hand_back(self, outcome: Callable[[], None]) -> None:
        if not self._over:
            outcome()
