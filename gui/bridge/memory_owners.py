"""Joins the snapshots of the devices with the active runs: who uses which GPU's memory."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QObject, Signal

from engine.runs.run_info import RunInfo
from engine.runs.run_workers import RunWorkers
from engine.telemetry.memory_attribution import Worker, memory_uses
from engine.telemetry.snapshot import Snapshot
from gui.bridge.background import Background


class MemoryOwners(QObject):
    """Says for every snapshot who uses the memory; the runs' stores are read in the background."""

    uses = Signal(object)
    """dict[str, MemoryUse], by UUID: one entry per GPU that answers."""

    def __init__(self, background: Background, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._background = background
        self._run_workers = RunWorkers()
        self._workers: list[Worker] = []
        self._reading = False

    def show_runs(self, runs: list[RunInfo]) -> None:
        """Take the list of all runs; their workers count from the next snapshot on."""
        if all(info.state.is_over for info in runs):
            self._workers = []
        elif not self._reading:
            self._reading = True
            read = partial(self._run_workers.read, runs)
            self._background.run(read, self._workers_are, self._failed)

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Take the devices as they are now: answered by `uses`."""
        self.uses.emit(memory_uses(snapshot.devices, self._workers))

    def _workers_are(self, workers: list[Worker]) -> None:
        self._reading = False
        self._workers = workers

    def _failed(self, error: Exception) -> None:
        self._reading = False
        raise error
