"""Keeps what was measured before a run, and finds what was measured for it earlier."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec
from PySide6.QtCore import QObject, Signal

from engine.client import CannotStart
from engine.planning import kept
from engine.planning.kept import Earlier
from engine.planning.results import Preflight, Race, with_texts
from engine.spec.run_spec import RunSpec
from gui.bridge.background import Background
from gui.bridge.machines.no_answer import NoAnswer

if TYPE_CHECKING:
    from engine.remote.requests import Code

A = TypeVar("A", Race, Preflight)


class KeptResults(QObject):
    """Reads and writes the files of the data folder on another thread; another machine keeps what
    it has measured itself."""

    found = Signal(object, object, str)
    """Earlier, the spec, and the name of the machine that was asked: the answer to `look`."""

    not_found = Signal(object, str)
    """The spec and the machine of a `look` that has no answer."""

    failed = Signal(str)
    """A sentence: what could not be kept or found, and why."""

    def __init__(self, background: Background, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._background = background

    def keep(self, result: Race | Preflight) -> None:
        """Keep a result of this machine; one without any entry or finding says nothing."""
        if kept.says_something(result):
            self._background.run(lambda: kept.keep(result), lambda _: None, self._fail)

    def look(self, spec: RunSpec, machine: str = "", *, quietly: bool = False) -> None:
        """Find the newest results of a machine (empty: this one) for the recipe of `spec` on its
        devices.

        Emits `found`. If there is no answer, it emits `not_found`, and `failed` too unless
        `quietly`.
        """

        def work() -> Earlier:
            return self._kept_elsewhere(spec, machine) if machine else kept.earlier(spec)

        def fail(error: Exception) -> None:
            self.not_found.emit(spec, machine)
            if not (quietly and isinstance(error, NoAnswer | CannotStart)):
                self._fail(error)

        self._background.run(work, lambda found: self.found.emit(found, spec, machine), fail)

    def _kept_elsewhere(self, spec: RunSpec, machine: str) -> Earlier:
        """Ask another machine. Raises CannotStart, NoAnswer."""
        from engine.remote.requests import MeasuredBefore
        from engine.remote.run_rows import packed_spec
        from gui.bridge.machines.remote_run import ANSWER_SECONDS, call, recipe_code

        connection = self._background.machines.connection(machine)
        code = recipe_code(spec)
        request = MeasuredBefore(packed_spec(spec), code)
        found = call(connection, request, ANSWER_SECONDS)
        try:
            race = msgspec.msgpack.decode(found.race, type=Race) if found.race else None
            preflight = (
                msgspec.msgpack.decode(found.preflight, type=Preflight) if found.preflight else None
            )
        except (ValueError, RecursionError) as error:
            text = self.tr("{machine}: what was measured before cannot be read here: {why}.")
            raise NoAnswer(text.format(machine=machine, why=error)) from error

        if code is None:
            return Earlier(race, preflight)
        return Earlier(
            race and _as_here(race, code, race.entries[0].spec.recipe, spec.recipe),
            preflight and _as_here(preflight, code, preflight.spec.recipe, spec.recipe),
        )

    def _fail(self, error: Exception) -> None:
        match error:
            case NoAnswer() | CannotStart():
                self.failed.emit(str(error))
            case OSError():
                text = self.tr("What was measured could not be kept: {why}.")
                self.failed.emit(text.format(why=error.strerror or error))
            case _:
                raise error


def _as_here(result: A, code: Code, there: str, here: str) -> A:
    """Return a result that names the files that were sent as they are called here."""
    from engine.remote.sent_code import SentFiles

    return with_texts(result, SentFiles(code, there, here).told)


__all__ = ["Earlier", "KeptResults"]
