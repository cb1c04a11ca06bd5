"""Finds out which processes use the memory of each GPU: workers of active runs, or others."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QObject, Signal

from engine.runs.run_info import RunInfo
from engine.runs.run_workers import RunWorkers
from engine.telemetry.memory_attribution import Worker, memory_uses
from engine.telemetry.snapshot import Snapshot
from gui.bridge.background import Background, Reading
from gui.bridge.machines.machines import is_elsewhere


class MemoryOwners(QObject):
    """Joins each snapshot with the workers of the active runs, which it reads in the background."""

    uses = Signal(object)
    """dict[str, MemoryUse] by UUID: one entry for each GPU that answers."""

    def __init__(self, background: Background, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._run_workers = RunWorkers()
        self._workers: list[Worker] = []
        self.snapshot: Snapshot | None = None
        """The newest one."""

        self._reading = Reading(background, self._set_workers)

    def show_runs(self, runs: list[RunInfo]) -> None:
        """Read the workers of the active `runs` of this machine; the next snapshot uses them."""
        runs = [info for info in runs if not is_elsewhere(info)]
        if all(info.state.is_over for info in runs):
            self._workers = []
        elif not self._reading.is_busy:
            self._reading.ask(partial(self._run_workers.read, runs))

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Emit `uses` for `snapshot`."""
        self.snapshot = snapshot
        self.uses.emit(memory_uses(snapshot.devices, self._workers))

    def _set_workers(self, workers: list[Worker]) -> None:
        self._workers = workers
