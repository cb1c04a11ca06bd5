"""Finds what was measured for a run earlier."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from engine.client import CannotStart
from engine.interface.values import NoAnswer
from engine.planning.kept import Earlier
from engine.planning.results import with_texts
from engine.spec.run_spec import RunSpec
from gui.bridge.background import Background


class KeptResults(QObject):
    """Asks the engine that has measured, which has kept it."""

    found = Signal(object, object, str)
    """Earlier, the spec, and the name of the machine that was asked: the answer to `look`."""

    not_found = Signal(object, str)
    """The spec and the machine of a `look` that has no answer."""

    failed = Signal(str)
    """A sentence: what could not be found, and why."""

    def __init__(self, background: Background, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._background = background

    def look(self, spec: RunSpec, machine: str = "", *, quietly: bool = False) -> None:
        """Find the newest results of a machine (empty: this one) for the recipe of `spec` on its
        devices.

        Emits `found`. If there is no answer, it emits `not_found`, and `failed` too unless
        `quietly`.
        """

        def work() -> Earlier:
            from engine.interface.recipes import send_recipe

            engine = self._background.machines.engine(machine)
            there, sent = send_recipe(engine, spec)
            race, preflight = engine.find_results(there)
            if sent is None:
                return Earlier(race, preflight)
            told = sent.told
            return Earlier(
                race and with_texts(race, told), preflight and with_texts(preflight, told)
            )

        def fail(error: Exception) -> None:
            self.not_found.emit(spec, machine)
            if not (quietly and isinstance(error, NoAnswer | CannotStart)):
                self._fail(error)

        self._background.run(work, lambda found: self.found.emit(found, spec, machine), fail)

    def _fail(self, error: Exception) -> None:
        match error:
            case NoAnswer() | CannotStart():
                self.failed.emit(str(error))
            case OSError():
                text = f"What was measured before cannot be read: {error.strerror or error}."
                self.failed.emit(text)
            case _:
                raise error


__all__ = ["Earlier", "KeptResults"]
