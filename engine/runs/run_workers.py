"""The workers of the active runs, read from the runs' stores."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import msgspec

from engine.messages.events import AttemptStarted, WorkerStarted
from engine.processes import process_tree
from engine.runs.run_info import RunInfo
from engine.runs.store.store_reader import RunReader, StoredEvent
from engine.telemetry.memory_attribution import Worker


class RunWorkers:
    """Remembers the last event of each store, so that a long run takes no longer to read."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def read(self, runs: Sequence[RunInfo]) -> list[Worker]:
        """Return the workers of the active runs in `runs`; unreadable runs are left out.

        Two threads must not call it at the same time.
        """
        active = [info for info in runs if not info.state.is_over]
        self._known = {info.id: self._known.get(info.id, _Known()) for info in active}
        found: list[Worker] = []
        for info in active:
            try:
                with RunReader(info.folder) as reader:
                    found += self._known[info.id].read(info, reader)
            except (sqlite3.Error, msgspec.DecodeError):
                continue  # the run is starting, or its store is damaged
        return found


class _Known:
    """The workers of the newest attempt of one run."""

    def __init__(self) -> None:
        self._seq = 0
        self._workers: dict[int, Worker] = {}

    def read(self, info: RunInfo, reader: RunReader) -> list[Worker]:
        """Read new events; return the workers with their newest reports. Raises sqlite3.Error."""
        for stored in reader.events_after(self._seq):
            self._seq = stored.seq
            self._add(stored, info.title)
        counts = reader.counts()
        freed = reader.status().freed_devices  # the last report is from before the pause

        def newest(worker: Worker, name: str) -> float | None:
            series = f"rank/{worker.rank}/{name}"
            if freed or not counts.get(series):
                return None
            last = reader.points_after(series, counts[series] - 1)
            if not len(last.value) or last.time[-1] < worker.start_event_time:
                return None  # the last report is from an earlier attempt
            return float(last.value[-1])

        return [
            worker._replace(
                below=_below(worker) if info.spec.is_script else (),
                allocated=newest(worker, "memory_allocated"),
                reserved=newest(worker, "memory_reserved"),
            )
            for worker in self._workers.values()
        ]

    def _add(self, stored: StoredEvent, title: str) -> None:
        match stored.event:
            case AttemptStarted():
                self._workers = {}
            case WorkerStarted(rank, pid, devices):
                self._workers[rank] = Worker(title, rank, pid, stored.time, devices)
            case _:
                pass


def _below(worker: Worker) -> tuple[int, ...]:
    return tuple(pid for pid, _ in process_tree.descendants([worker.pid]))
