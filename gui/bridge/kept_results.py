"""Keeps what was measured before a run, and finds what was measured for it earlier."""

from __future__ import annotations

from typing import NamedTuple

from PySide6.QtCore import QObject, Signal

from engine.facts.run_facts import Planning
from engine.planning import kept
from engine.planning.kept import NoSuchResult
from engine.planning.results import Preflight, Race
from engine.spec.run_spec import RunSpec
from gui.bridge.background import Background


class Earlier(NamedTuple):
    """The newest results for a recipe on some devices; None: there is none."""

    race: Race | None = None
    preflight: Preflight | None = None


class KeptResults(QObject):
    """Reads and writes the files of the data folder on another thread."""

    found = Signal(object)
    """Earlier: the answer to `look`."""

    failed = Signal(str)
    """A sentence: what could not be kept, and why."""

    def __init__(self, background: Background, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._background = background

    def keep(self, result: Race | Preflight) -> None:
        """Keep a result; one without any entry or finding says nothing."""
        if result.entries if isinstance(result, Race) else result.findings:
            self._background.run(lambda: kept.keep(result), lambda _: None, self._fail)

    def look(self, spec: RunSpec) -> None:
        """Find the newest results for the recipe of `spec` on its devices. Emits `found`."""
        self._background.run(lambda: _earlier(spec), self.found.emit, self._fail)

    def _fail(self, error: Exception) -> None:
        if not isinstance(error, OSError):
            raise error
        text = self.tr("What was measured could not be kept: {why}.")
        self.failed.emit(text.format(why=error.strerror or error))


def measured_before(spec: RunSpec) -> Planning | None:
    """Return the newest result that says something about a run with `spec`; None: there is none."""
    newest = kept.newest_for(spec)
    try:
        return kept.planned(newest[0]) if newest is not None else None
    except NoSuchResult:
        return None  # another window has just deleted it


def _earlier(spec: RunSpec) -> Earlier:
    race = preflight = None
    for number in kept.numbers():
        try:
            result = kept.read(number)
        except NoSuchResult:
            continue
        if isinstance(result, Race) and race is None:
            devices = {device for each in result.entries for device in each.devices}
            is_alike = devices == set(spec.devices) and result.entries[0].spec.recipe == spec.recipe
            race = result if is_alike else None
        elif isinstance(result, Preflight) and preflight is None:
            own = result.spec
            is_alike = (own.recipe, set(own.devices)) == (spec.recipe, set(spec.devices))
            preflight = result if is_alike else None
        if race is not None and preflight is not None:
            break
    return Earlier(race, preflight)
