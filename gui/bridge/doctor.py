"""Makes the checks of the doctor on another thread; each asks a process of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator

from PySide6.QtCore import QObject, Signal

from engine.doctor.check import Check
from engine.doctor.examination import OURS, Examination, Pythons
from engine.doctor.probing import Cancelled
from engine.doctor.report import report_text
from engine.environments.registry import default_interpreter
from gui.bridge.background import Background


class Doctor(QObject):
    """One examination at a time."""

    begun = Signal(bool)
    """An examination begins; whether it uses the GPUs."""

    checked = Signal(object)
    """Check: one more result of the examination."""

    progress = Signal(str)
    """What is checked now, in a few words."""

    ended = Signal(bool)
    """Whether the examination came to its end; it was stopped otherwise."""

    odd = Signal(list)
    """list[Check]: what `look` found wrong; empty: nothing."""

    _heard = Signal(object, object)
    """The examination's number, and a Check or a text, as another thread emits it."""

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

        def work() -> list[Check]:
            try:
                checks = Examination(_pythons(), is_cancelled=is_cancelled).quick()
                return [check for check in checks if check.ok is False]
            except Cancelled:
                return []

        self._background.run(work, self.odd.emit, _unexpected)

    def examine(self, *, on_gpus: bool) -> None:
        """Make all checks, or without `on_gpus` those that import no framework and touch no GPU."""
        if self.is_running:
            return
        self.is_running = True
        self._number += 1
        number = self._number
        cancelled = self._cancelled = threading.Event()

        def work() -> bool:
            examination = Examination(
                _pythons(),
                is_cancelled=cancelled.is_set,
                progress=lambda what: self._heard.emit(number, what),
            )
            try:
                for check in _checks(examination, on_gpus):
                    self._heard.emit(number, check)
                    if cancelled.is_set():
                        return False
            except Cancelled:
                return False
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

    def report(self, checks: Iterable[Check]) -> str:
        """Return the text of a report with `checks`, without names of the user."""
        return report_text(checks, now=time.time())

    def _hear(self, number: int, what: Check | str) -> None:
        if number != self._number:
            return
        if isinstance(what, Check):
            self.checked.emit(what)
        else:
            self.progress.emit(what)

    def _end(self, is_complete: bool) -> None:
        self.is_running = False
        self.ended.emit(is_complete)

    def _fail(self, error: Exception) -> None:
        self._end(False)
        raise error


def _checks(examination: Examination, on_gpus: bool) -> Iterator[Check]:
    if on_gpus:
        yield from examination.thorough()
    else:
        yield from examination.quick()
        yield from examination.machine()


def _pythons() -> Pythons:
    """Return what recipes are trained with."""
    try:
        return Pythons(default_interpreter("torch"), default_interpreter("tensorflow"))
    except OSError:
        return OURS


def _unexpected(error: Exception) -> None:
    raise error
