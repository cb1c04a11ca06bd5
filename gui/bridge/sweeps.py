"""Starts, stops, resumes and reads sweeps in the background."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer, Signal

from engine.sweeps import sweep as sweeps
from engine.sweeps.proposal import first_problems
from engine.sweeps.report import SweepIndex, SweepReport, resume
from engine.sweeps.study import DamagedJournal
from engine.sweeps.sweep import NoSuchSweep, Sweep, SweepActive
from gui.bridge.background import Background

READ_MS = 1000
"""Interval at which the sweeps are read while somebody looks at them."""


class Sweeps(QObject):
    """The sweeps of this machine. What changes them is in their folders: several windows may."""

    listed = Signal(list)
    """list[SweepReport], newest first; a report that has not changed is the same object."""

    started = Signal(str)
    """Number of a sweep that has been started or resumed."""

    refused = Signal(str)
    """Sentences: why a new sweep was not started."""

    failed = Signal(str)
    """A sentence: why a sweep could not be stopped or resumed."""

    def __init__(self, background: Background, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._background = background
        self._index = SweepIndex()
        self._is_reading = self._read_again = False
        self._timer = QTimer(self)
        self._timer.setInterval(READ_MS)
        self._timer.timeout.connect(self.read)

    def set_watching(self, watching: bool) -> None:
        """Read the sweeps now and every second, or no more."""
        if watching:
            self._timer.start()
            self.read()
        else:
            self._timer.stop()

    def read(self) -> None:
        """Read what has changed. Emits `listed`."""
        if self._is_reading:
            self._read_again = True
            return
        self._is_reading, self._read_again = True, False
        self._background.run(self._index.read, self._report, self._reading_failed)

    def start(self, sweep: Sweep) -> None:
        """Start a new sweep. Emits `started` or `refused`."""

        def work() -> str:
            if found := first_problems(sweep):
                raise _Refused(" ".join(each.text for each in found))
            folder = sweeps.create(sweep)
            sweeps.drive(folder)
            return folder.name

        self._background.run(work, self._report_started, self._refuse)

    def resume(self, number: str) -> None:
        """Let a sweep go on. Emits `started` or `failed`."""

        def work() -> str:
            resume(sweeps.folder_of(number))
            return number

        self._background.run(work, self._report_started, self._fail)

    def stop(self, number: str) -> None:
        """Ask a sweep to stop: its runs save and end. Emits `failed` if that is not possible."""
        self._do(lambda: sweeps.ask_to_stop(sweeps.folder_of(number)))

    def _do(self, work: Callable[[], None]) -> None:
        self._background.run(work, lambda _: self.read(), self._fail)

    def _report(self, reports: list[SweepReport]) -> None:
        self._is_reading = False
        self.listed.emit(reports)
        if self._read_again:
            self.read()

    def _report_started(self, number: str) -> None:
        self.read()
        self.started.emit(number)

    def _reading_failed(self, error: Exception) -> None:
        self._is_reading = False
        self._fail(error)

    def _refuse(self, error: Exception) -> None:
        if not isinstance(error, _Refused | NoSuchSweep | SweepActive | OSError):
            raise error
        self.refused.emit(str(error))

    def _fail(self, error: Exception) -> None:
        if not isinstance(error, NoSuchSweep | DamagedJournal | SweepActive | OSError):
            raise error
        self.failed.emit(str(error))


class _Refused(Exception):
    """The runs of a sweep could not start; the text is sentences."""
