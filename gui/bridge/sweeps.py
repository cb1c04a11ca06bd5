"""Starts, stops, resumes and reads sweeps in the background, here and on other machines."""

from __future__ import annotations

from msgspec.structs import replace
from PySide6.QtCore import QObject, QTimer, Signal

from engine.client import CannotStart
from engine.interface.values import id_of
from engine.sweeps.report import SweepIndex, SweepReport
from engine.sweeps.study import DamagedJournal
from engine.sweeps.sweep import NoSuchSweep, Sweep, SweepActive
from gui.bridge.background import Background, Reading
from gui.bridge.machines.remote_sweeps import RemoteSweeps

READ_MS = 1000
"""Interval at which the sweeps of this machine are read while somebody looks at them."""


class Sweeps(QObject):
    """The sweeps of all machines; one of another machine is called `gpus:3`, as its runs are.

    What changes them is in their folders: several windows may.
    """

    listed = Signal(list, list, list)
    """list[SweepReport]: those of this machine, newest first, and then those of each other one; a
    report that has not changed is the same object. Then list[str]: the machines whose sweeps are
    still to come. And list[str]: sentences that say of which machines sweeps are missing, and why.
    """

    started = Signal(str)
    """Number of a sweep that has been started or resumed."""

    refused = Signal(str)
    """Sentences: why a new sweep was not started."""

    failed = Signal(str)
    """A sentence: why a sweep could not be stopped or resumed."""

    def __init__(self, background: Background, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._background = background
        self._machines = background.machines
        self._index = SweepIndex()
        self._own: list[SweepReport] | None = None
        self._elsewhere = RemoteSweeps(self._machines, self)
        self._elsewhere.changed.connect(self._report_all)
        self._reading = Reading(background, self._report, self._fail)
        self._timer = QTimer(self, interval=READ_MS)
        self._timer.timeout.connect(self.read)

    def set_watching(self, watching: bool) -> None:
        """Follow the sweeps of all machines from now on, or no more."""
        self._elsewhere.set_watching(watching)
        if watching:
            self._timer.start()
            self.read()
        else:
            self._timer.stop()

    def read(self) -> None:
        """Read what has changed on this machine. Emits `listed`."""
        self._reading.ask(self._index.read)

    def start(self, sweep: Sweep, machine: str = "") -> None:
        """Start a new sweep, on this machine or on the one with this name, to which its recipe is
        sent. Emits `started` or `refused`."""

        def work() -> str:
            from engine.interface.recipes import send_recipe

            engine = self._machines.engine(machine)
            base, _ = send_recipe(engine, sweep.base)
            return id_of(machine, engine.start_sweep(replace(sweep, base=base)))

        self._background.run(work, self._report_started, self._refuse)

    def resume(self, number: str) -> None:
        """Let a sweep go on. Emits `started` or `failed`."""

        def work() -> str:
            engine, its_number = self._machines.engine_of(number)
            engine.resume_sweep(its_number)
            return number

        self._background.run(work, self._report_started, self._fail)

    def stop(self, number: str) -> None:
        """Ask a sweep to stop: its runs save and end. Emits `failed` if that is not possible."""

        def work() -> None:
            engine, its_number = self._machines.engine_of(number)
            engine.stop_sweep(its_number)

        self._background.run(work, lambda _: self.read(), self._fail)

    def _report(self, reports: list[SweepReport]) -> None:
        self._own = reports
        self._report_all()

    def _report_all(self) -> None:
        if self._own is not None:  # the sweeps of this machine come first
            others = self._elsewhere.reports()
            awaited, missing = self._elsewhere.awaited(), self._elsewhere.missing()
            self.listed.emit([*self._own, *others], awaited, missing)

    def _report_started(self, number: str) -> None:
        self.read()
        self.started.emit(number)

    def _refuse(self, error: Exception) -> None:
        if isinstance(error, CannotStart):
            self.refused.emit(" ".join(each.text for each in error.problems))
        elif isinstance(error, NoSuchSweep | SweepActive | OSError):
            self.refused.emit(str(error))
        else:
            raise error

    def _fail(self, error: Exception) -> None:
        if not isinstance(error, NoSuchSweep | DamagedJournal | SweepActive | OSError):
            raise error
        self.failed.emit(str(error))
