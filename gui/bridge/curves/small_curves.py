"""Reads the small curves of the table of runs, in the background: of runs that are in sight."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

import numpy as np
from PySide6.QtCore import QObject, Signal

from engine.runs.run_info import RunInfo
from engine.runs.store.stored_points import StoredPoints
from gui.bridge.background import Background, Reading
from gui.bridge.machines.machines import UNREADABLE, Machines

POINTS = 40
"""Of a small curve, at most."""

MOST_KEPT = 20_000
"""Curves that are remembered; they take about 10 MiB."""

_MOST_READ = 500


class SmallCurves(QObject):
    """Remembers what it has read; a live run is read again when its state has changed."""

    arrived = Signal()
    """Curves that were wanted are there."""

    def __init__(self, background: Background, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._background = background
        self._known: dict[tuple[str, str], tuple[float, Sequence[float]]] = {}
        self._reading = Reading(background, self._report)

    def get(self, info: RunInfo, series: str) -> Sequence[float] | None:
        """Return a curve, which may be older than the run; None: it was not read yet."""
        known = self._known.get((info.id, series))
        return known[1] if known else None

    def want(self, infos: Iterable[RunInfo], series: Iterable[str]) -> None:
        """Read the curves of these runs that are missing or old. Emits `arrived`."""
        names = list(series)
        wanted = [(info, [name for name in names if self._is_old(info, name)]) for info in infos]
        wanted = [(info, missing) for info, missing in wanted if missing]
        if not wanted or self._reading.is_busy:
            return  # who wants more asks again when these have arrived
        machines = self._background.machines

        def work() -> list[tuple[RunInfo, str, Sequence[float]]]:
            return [
                (info, name, curve)
                for info, missing in wanted
                for name, curve in _read(machines, info, missing)
            ]

        self._reading.ask(work)

    def _is_old(self, info: RunInfo, series: str) -> bool:
        known = self._known.get((info.id, series))
        return known is None or known[0] != info.status.updated

    def _report(self, found: list[tuple[RunInfo, str, Sequence[float]]]) -> None:
        for info, series, curve in found:
            self._known.pop((info.id, series), None)
            self._known[info.id, series] = info.status.updated, curve
        while len(self._known) > MOST_KEPT:
            del self._known[next(iter(self._known))]
        self.arrived.emit()


def _read(
    machines: Machines, info: RunInfo, series: Sequence[str]
) -> list[tuple[str, Sequence[float]]]:
    """Return the curves of a run; an empty one for a series that it lacks."""
    try:
        engine, run = machines.engine_of(info.id)
        return [(name, _evenly(engine.read_history(run, name, _MOST_READ))) for name in series]
    except (sqlite3.Error, *UNREADABLE, ValueError):  # the list of runs says what is wrong with it
        return [(name, ()) for name in series]


def _evenly(points: StoredPoints) -> Sequence[float]:
    """Return values at evenly spaced steps."""
    values = points.value if points.statistics is None else points.statistics.mean
    there = np.isfinite(values)
    steps, values = points.step[there], values[there]
    if len(steps) <= POINTS:
        at = steps if len(steps) < 2 else np.linspace(steps[0], steps[-1], len(steps))
    else:
        at = np.linspace(steps[0], steps[-1], POINTS)
    return np.interp(at, steps, values).tolist() if len(steps) else ()
