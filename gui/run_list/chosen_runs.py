"""The runs that are chosen for the comparison, each with its colour; one may be the baseline."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from PySide6.QtCore import QObject, QSettings, Signal

from gui.bridge.machines.machines import place_of

COLOURS = 8
"""The number of colours that can be told apart; with more runs they repeat, with other dashes."""

MAX_REMEMBERED = 64
"""Runs whose colours are remembered after they have been removed from the comparison."""

_LARGEST_INDEX = 100_000
"""Of a colour, in a settings file."""

_REMEMBERED, _CHOSEN, _BASELINE = "compare/colours", "compare/runs", "compare/baseline"


class ChosenRuns(QObject):
    """The state that the list of runs and the comparison share."""

    changed = Signal()
    """Other runs are chosen, or another baseline."""

    def __init__(self, settings: QSettings | None = None, parent: QObject | None = None) -> None:
        """`settings` store the choice and the colours."""
        super().__init__(parent)
        self._settings = settings
        self._colours: dict[str, int] = {}
        self._remembered: dict[str, int] = {}
        self.baseline: str | None = None
        """Id of the pinned run."""

        self._absent: list[str] = []
        """Chosen runs of other machines that do not answer now; they come back with these."""

        self._absent_baseline: str | None = None
        if settings is not None:
            self._restore(settings)
        self.changed.connect(self._remember)

    def ids(self) -> list[str]:
        """The chosen runs, in the order in which they were chosen."""
        return list(self._colours)

    def colours(self) -> dict[str, int]:
        """Colour index of each chosen run. A run that is chosen again gets its former colour,
        unless another run has it now."""
        return dict(self._colours)

    def toggle(self, run_id: str) -> None:
        """Choose a run, or remove it from the choice."""
        if run_id in self._colours:
            self.keep_only(each for each in self.ids() if each != run_id)
        else:
            self._add([run_id])

    def add(self, run_ids: Iterable[str]) -> None:
        """Choose these runs too."""
        self._add(list(run_ids))

    def choose(self, run_ids: Iterable[str]) -> None:
        """Choose exactly these runs; runs that are already chosen keep their colours."""
        wanted = list(run_ids)
        self._absent, self._absent_baseline = [], None
        self._drop(wanted)
        self._add(wanted)

    def keep_only(self, run_ids: Iterable[str]) -> None:
        """Remove every other run from the choice."""
        if self._drop(run_ids):
            self.changed.emit()

    def follow_list(self, run_ids: Iterable[str]) -> None:
        """Choose only what is listed: all runs of this machine, and of the others that answer.

        The runs of another one, of which none is listed, are chosen again when it lists them.
        """
        listed = set(run_ids)
        answering = {"", *(place_of(run_id)[0] for run_id in listed)}
        back = [run_id for run_id in self._absent if run_id in listed]
        gone = [run_id for run_id in self._colours if run_id not in listed]
        if self.baseline in gone:
            self._absent_baseline = self.baseline
        absent = [each for each in [*self._absent, *gone] if place_of(each)[0] not in answering]
        self._absent = absent[-MAX_REMEMBERED:]
        is_changed = self._drop(listed)
        if back:
            if self.baseline is None and self._absent_baseline in back:
                self.baseline, self._absent_baseline = self._absent_baseline, None
            self._add(back)
        elif is_changed:
            self.changed.emit()

    def pin(self, run_id: str | None) -> None:
        """Make a chosen run the baseline; None, or the present baseline, unpins it."""
        self.baseline = None if run_id == self.baseline else run_id
        self.changed.emit()

    def _add(self, run_ids: list[str]) -> None:
        """Give each run its former colour if no other run has it; otherwise the first free one,
        rather one of the distinct ones that no run had before."""
        taken = set(self._colours.values())
        known = taken | set(self._remembered.values())
        free = (index for index in count() if index not in taken)
        for run_id in run_ids:
            if run_id in self._colours:
                continue
            former = self._remembered.get(run_id)
            colour = former if former is not None and former not in taken else None
            if colour is None:
                unused = next((index for index in range(COLOURS) if index not in known), None)
                colour = next(free) if unused is None else unused
            taken.add(colour)
            known.add(colour)
            self._assign(run_id, colour)
        self.changed.emit()

    def _assign(self, run_id: str, colour: int) -> None:
        self._colours[run_id] = colour
        self._remembered.pop(run_id, None)  # moves it to the end: the oldest entry is dropped first
        self._remembered[run_id] = colour
        while len(self._remembered) > max(MAX_REMEMBERED, len(self._colours)):
            del self._remembered[next(iter(self._remembered))]

    def _remember(self) -> None:
        if self._settings is not None:
            self._settings.setValue(_REMEMBERED, _written(self._remembered))
            absent = {run_id: self._remembered.get(run_id, 0) for run_id in self._absent}
            self._settings.setValue(_CHOSEN, _written(self._colours | absent))
            self._settings.setValue(_BASELINE, self.baseline or self._absent_baseline or "")

    def _restore(self, settings: QSettings) -> None:
        self._remembered = _read(settings.value(_REMEMBERED))
        found = _read(settings.value(_CHOSEN))
        self._absent = [run_id for run_id in found if place_of(run_id)[0]][-MAX_REMEMBERED:]
        chosen = {run_id: colour for run_id, colour in found.items() if not place_of(run_id)[0]}
        if len(set(chosen.values())) == len(chosen):  # otherwise the file was edited
            self._colours = chosen
        baseline = settings.value(_BASELINE)
        self.baseline = baseline if baseline in self._colours else None
        self._absent_baseline = baseline if baseline in self._absent else None

    def _drop(self, run_ids: Iterable[str]) -> bool:
        stay = set(run_ids)
        gone = [run_id for run_id in self._colours if run_id not in stay]
        for run_id in gone:
            del self._colours[run_id]
        if self.baseline not in self._colours:
            self.baseline = None
        return bool(gone)


def _written(colours: dict[str, int]) -> str:
    return " ".join(f"{run_id}:{colour}" for run_id, colour in colours.items())


def _read(text: object) -> dict[str, int]:
    """Read what `_written` returned; skip damaged entries."""
    pairs = (word.rsplit(":", 1) for word in str(text or "").split())
    return {
        pair[0]: int(pair[1])
        for pair in pairs
        if len(pair) == 2 and pair[1].isdecimal() and int(pair[1]) < _LARGEST_INDEX
    }
