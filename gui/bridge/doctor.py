"""Makes the checks of the doctor on another thread, or lets another machine make them."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from PySide6.QtCore import QObject, Signal

from engine.doctor.examination import OURS, Examination, Pythons, usual_pythons
from engine.doctor.finding import Finding
from engine.interface.values import ExaminationPart, NoAnswer
from engine.system.cancelled import Cancelled
from gui.bridge.background import Background


class Doctor(QObject):
    """One examination at a time, of this machine or of another one."""

    begun = Signal(bool)
    """An examination begins; whether it uses the GPUs."""

    checked = Signal(object)
    """Finding: one more result of the examination."""

    progress = Signal(str)
    """What is checked now, in a few words."""

    ended = Signal(bool)
    """Whether the examination came to its end; it was stopped otherwise."""

    failed = Signal(str)
    """A sentence: why another machine did not answer."""

    reported = Signal(str)
    """The text of a report: the answer to `report`."""

    odd = Signal(list)
    """list[Finding]: what `look` found wrong; empty: nothing."""

    _heard = Signal(object, object)
    """The examination's number, and a Finding or a text, as another thread emits it."""

    def __init__(self, background: Background, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._background = background
        self._cancelled, self._look_cancelled = threading.Event(), threading.Event()
        self._number = 0
        self.is_running = False
        self._heard.connect(self._hear)

    def look(self) -> None:
        """Ask the driver and read files, without a word unless something is wrong: emits `odd`."""

        is_cancelled = self._look_cancelled.is_set

        def work() -> list[Finding]:
            try:
                checks = Examination(_pythons(), is_cancelled=is_cancelled).quick()
                return [check for check in checks if check.level == "error"]
            except Cancelled:
                return []

        self._background.run(work, self.odd.emit, _unexpected)

    def examine(self, *, on_gpus: bool, machine: str = "") -> None:
        """Make all checks, or without `on_gpus` those that import no framework and touch no GPU, of
        this machine or of the one with this name."""
        if self.is_running:
            return
        self.is_running = True
        self._number += 1
        number = self._number
        cancelled = self._cancelled = threading.Event()

        def tell(part: ExaminationPart) -> None:
            self._heard.emit(number, part.finding or part.doing)

        def work() -> bool:
            try:
                engine = self._background.machines.engine(machine)
                engine.examine("thorough" if on_gpus else "quick", "", tell, cancelled)
            except NoAnswer:
                if cancelled.is_set():
                    raise Cancelled from None
                raise
            return True

        self.begun.emit(on_gpus)
        self._background.run(work, self._end, self._fail)

    def stop(self) -> None:
        """End the examination, and the processes of its probes."""
        self._cancelled.set()

    def shut_down(self) -> None:
        """End all probes, because the window closes."""
        self._look_cancelled.set()
        self._cancelled.set()

    def report(self, checks: Iterable[Finding], machine: str = "") -> None:
        """Write a report of `checks` of this machine or of the one with this name, without names of
        its user. Emits `reported` or `failed`."""
        found = [ExaminationPart(check) for check in checks]

        def work() -> str:
            text = self._background.machines.engine(machine).report_checks(found)
            if not machine:
                return text
            return f"# The machine {machine}\n\n{text}"

        self._background.run(work, self.reported.emit, self._tell_failure)

    def _hear(self, number: int, what: Finding | str) -> None:
        if number != self._number:
            return
        if isinstance(what, Finding):
            self.checked.emit(what)
        else:
            self.progress.emit(what)

    def _end(self, is_complete: bool) -> None:
        self.is_running = False
        self.ended.emit(is_complete)

    def _fail(self, error: Exception) -> None:
        self._end(False)
        if not isinstance(error, Cancelled):
            self._tell_failure(error)

    def _tell_failure(self, error: Exception) -> None:
        if not isinstance(error, NoAnswer):
            raise error
        self.failed.emit(str(error))


def _pythons() -> Pythons:
    """Return what recipes are trained with."""
    try:
        return usual_pythons()
    except OSError:
        return OURS


def _unexpected(error: Exception) -> None:
    raise error
