"""The runs that are chosen for the comparison: each has its colour, one may be the baseline."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QObject, Signal

MOST = 8
"""As many as there are colours that can be told apart."""


class ChosenRuns(QObject):
    """What the list of runs and the comparison agree on."""

    changed = Signal()
    """Another choice, or another baseline."""

    refused = Signal(str)
    """A sentence: why a run was not chosen."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._colours: dict[str, int] = {}
        self.baseline: str | None = None
        """Id of the run that is pinned."""

    def ids(self) -> list[str]:
        """The chosen runs, in the order in which they were chosen."""
        return list(self._colours)

    def colours(self) -> dict[str, int]:
        """Colour index of each chosen run; a run keeps it for as long as it is chosen."""
        return dict(self._colours)

    def toggle(self, run_id: str) -> None:
        """Choose a run, or choose it no more."""
        if run_id in self._colours:
            self.keep(each for each in self.ids() if each != run_id)
        else:
            self._add([run_id])

    def choose(self, run_ids: Iterable[str]) -> None:
        """Choose exactly these runs; those that were chosen before keep their colours."""
        wanted = list(run_ids)
        self._drop(wanted)
        self._add(wanted)

    def keep(self, run_ids: Iterable[str]) -> None:
        """Drop every chosen run that is not among these."""
        if self._drop(run_ids):
            self.changed.emit()

    def pin(self, run_id: str | None) -> None:
        """Make a chosen run the baseline, or none; the baseline again unpins it."""
        self.baseline = None if run_id == self.baseline else run_id
        self.changed.emit()

    def _add(self, run_ids: list[str]) -> None:
        for run_id in run_ids:
            free = [index for index in range(MOST) if index not in self._colours.values()]
            if run_id in self._colours:
                continue
            if not free:
                self.refused.emit(
                    f"{MOST} runs can be compared at once: take one out to add run {run_id}."
                )
                break
            self._colours[run_id] = free[0]
        self.changed.emit()

    def _drop(self, kept: Iterable[str]) -> bool:
        stay = set(kept)
        gone = [run_id for run_id in self._colours if run_id not in stay]
        for run_id in gone:
            del self._colours[run_id]
        if self.baseline not in self._colours:
            self.baseline = None
        return bool(gone)
