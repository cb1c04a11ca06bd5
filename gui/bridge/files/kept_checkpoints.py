"""Reads which checkpoints of the watched run are on disk, in the background."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from PySide6.QtCore import QObject, QTimer, Signal

from engine.messages.events import AttemptStarted, CheckpointSaved, RunEnded
from engine.runs.store.store_reader import StoredEvent
from gui.bridge.background import Background, Reading
from gui.bridge.machines.machines import UNREADABLE, Machines

_SETTLED_MS = 1000
"""Older checkpoints are deleted after a new one has been announced: the folder is read once more
after this time."""

_CHANGING = (AttemptStarted, CheckpointSaved, RunEnded)


class KeptCheckpoints(QObject):
    """Emits `changed` when a checkpoint of the watched run has appeared or was deleted."""

    changed = Signal(object)
    """By the step of each checkpoint on disk: whether it is the best one. None: not known."""

    def __init__(self, background: Background, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._machines = background.machines
        self._run_id: str | None = None
        self._reading = Reading(background, self._report)
        self._again = QTimer(self, singleShot=True, interval=_SETTLED_MS)
        self._again.timeout.connect(self._read)

    def watch(self, run_id: str | None) -> None:
        """Watch the checkpoints of `run_id`."""
        self._run_id = run_id
        self._again.stop()
        self.changed.emit(None)
        self._read()

    def add_events(self, events: Sequence[StoredEvent]) -> None:
        """Read the folder again if new events of the run say that it has changed."""
        if any(isinstance(each.event, _CHANGING) for each in events):
            self._read()
            self._again.start()

    def _read(self) -> None:
        if self._run_id is not None:
            self._reading.ask(partial(_kept, self._machines, self._run_id))

    def _report(self, answer: tuple[str, dict[int, bool] | None]) -> None:
        run_id, kept = answer
        if run_id == self._run_id:
            self.changed.emit(kept)


def _kept(machines: Machines, run_id: str) -> tuple[str, dict[int, bool] | None]:
    try:
        engine, run = machines.engine_of(run_id)
        saved = engine.list_checkpoints(run)
    except UNREADABLE:  # the list of runs tells of a folder that cannot be read
        return run_id, None
    return run_id, {each.manifest.position.step: "best" in each.manifest.kinds for each in saved}
