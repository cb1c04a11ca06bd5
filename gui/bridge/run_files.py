"""Writes the notes of runs, and moves runs to the trash and back, in the background."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from PySide6.QtCore import QObject, Signal

from engine.interface.values import NoAnswer
from engine.runs import trash
from engine.runs.run_info import NoSuchRun
from engine.runs.run_notes import ChangedNotes
from engine.runs.trash import CannotDelete
from gui.bridge.background import Background
from gui.bridge.machines.machines import UNREADABLE, place_of

_Outcome = tuple[list[str], str]
"""Ids of the changed runs, and sentences why the others were not changed."""


class CannotWriteNotes(Exception):
    """Notes that could not be written; the text is a sentence."""


class RunFiles(QObject):
    """Deletes and restores runs, and writes their notes."""

    changed = Signal()
    """The runs or their notes have changed."""

    deleted = Signal(list)
    """Ids of the runs that `delete` has moved to the trash."""

    failed = Signal(str)
    """Sentences: what could not be done, and why."""

    notes_written = Signal(object)
    """What `write_notes` was given."""

    notes_refused = Signal(object, str)
    """What `write_notes` was given, and why it was not written, in a sentence; after `failed`."""

    def __init__(self, background: Background, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._background = background

    def write_notes(self, notes: Mapping[str, ChangedNotes]) -> None:
        """Write what was changed in notes, by the id of their run."""

        def work() -> None:
            for run_id, each in notes.items():
                try:
                    engine, run = self._background.machines.engine_of(run_id)
                    engine.write_notes(run, each)
                except UNREADABLE as error:
                    why = getattr(error, "strerror", None) or str(error).rstrip(".")
                    raise CannotWriteNotes(
                        f"The notes on run {run_id} cannot be written: {why}."
                    ) from error

        def done(_: None) -> None:
            self.notes_written.emit(notes)
            self.changed.emit()

        def fail(error: Exception) -> None:
            self._fail(error)
            self.notes_refused.emit(notes, str(error))

        self._background.run(work, done, fail)

    def trashed(self) -> list[str]:
        """Return the ids of the runs in the trash of this machine, newest first, and of others."""
        return [*trash.trashed(), *self._background.machines.trashed()]

    def delete(self, run_ids: Sequence[str]) -> None:
        """Move runs to the trash."""

        def delete(run_id: str) -> None:
            engine, run = self._background.machines.engine_of(run_id)
            engine.delete_run(run)

        self._background.run(partial(_for_each, delete, run_ids), self._report_deleted, self._fail)

    def restore(self, run_ids: Sequence[str]) -> None:
        """Move runs out of the trash."""

        def restore(run_id: str) -> None:
            engine, run = self._background.machines.engine_of(run_id)
            engine.restore_run(run)

        self._background.run(partial(_for_each, restore, run_ids), self._report, self._fail)

    def empty_trash(self, run_ids: Sequence[str]) -> None:
        """Delete runs in the trash of one machine for good."""
        name, numbers = place_of(run_ids[0])[0], tuple(place_of(each)[1] for each in run_ids)

        def work() -> None:
            self._background.machines.engine(name).empty_trash(numbers)

        self._background.run(work, lambda _: self.changed.emit(), self._fail)

    def _report_deleted(self, outcome: _Outcome) -> None:
        self.deleted.emit(outcome[0])
        self._report(outcome)

    def _report(self, outcome: _Outcome) -> None:
        self.changed.emit()
        if outcome[1]:
            self.failed.emit(outcome[1])

    def _fail(self, error: Exception) -> None:
        if not isinstance(error, (CannotDelete, CannotWriteNotes, *UNREADABLE)):
            raise error
        self.changed.emit()
        self.failed.emit(str(error))


def _for_each(change: Callable[[str], None], run_ids: Sequence[str]) -> _Outcome:
    """Apply `change` to every run; continue after a run that cannot be changed."""
    done: list[str] = []
    problems: list[str] = []
    for run_id in run_ids:
        try:
            change(run_id)
            done.append(run_id)
        except (CannotDelete, NoSuchRun, NoAnswer) as error:
            problems.append(str(error))
    return done, " ".join(problems)
