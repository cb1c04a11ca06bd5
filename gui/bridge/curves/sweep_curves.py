"""Reads the curves of a sweep's runs: the best one, and those of the others."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from PySide6.QtCore import QObject, Signal

from engine.runs.store.store_reader import RunReader
from engine.runs.store.stored_points import StoredPoints
from engine.sweeps.report import SweepReport
from engine.sweeps.study import OVER
from engine.sweeps.sweep import Sweep
from engine.system import paths
from gui.bridge.background import Background

Array = npt.NDArray[np.float64]

_POINTS = 300
"""Of one curve of the others, about."""

_BEST_POINTS = 5000
_RUNS_AT_ONCE = 40

Line = tuple[Array, Array]
"""Steps, ascending, and finite values: float64 of shape (n,), at least one point."""


class SweepLines(NamedTuple):
    """The curves of the metric of a sweep."""

    sweep: str
    """Its number."""

    best: str
    """The run with the best value; empty: there is none yet."""

    points: StoredPoints | None
    """Of the best run; None: it is gone, or cannot be read."""

    others: Sequence[Line]
    unread: int = 0
    """Runs whose curves are still to be read."""


class SweepCurves(QObject):
    """Reads the runs of one sweep; after its end, each is read once more."""

    arrived = Signal(object)
    """SweepLines of the sweep that was shown last."""

    def __init__(self, background: Background, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._background = background
        self._report: SweepReport | None = None
        self._lines: dict[str, Line | None] = {}
        """By run; None: it cannot be read, or has no such series."""

        self._whole: set[str] = set()
        """The runs that were over when they were read: their lines do not change."""

        self._is_busy = self._is_old = False

    def show(self, report: SweepReport) -> None:
        """Read what is new in the runs of a sweep. Emits `arrived`, also while some are unread."""
        before = self._report
        if before is None or before.summary.sweep != report.summary.sweep:
            self._lines, self._whole = {}, set()
        self._report, self._is_old = report, True
        if not self._is_busy:
            self._start()

    @property
    def is_reading(self) -> bool:
        """Whether curves are still to come."""
        return self._is_busy

    def _start(self) -> None:
        report = self._report
        self._is_busy = False
        if report is None or report.sweep is None:
            return
        sweep, lines = report.sweep, dict(self._lines)
        runs = {each.run: each.state in OVER for each in report.trials if each.run}
        unread = [run for run in runs if run not in self._whole]
        # What is new of a run that still trains, and that has a line already, comes last.
        unread.sort(key=lambda run: run in lines and not runs[run])
        missing = sum(runs[run] or run not in lines for run in unread)
        if not self._is_old and not missing:
            return
        self._is_busy, self._is_old = True, False
        best = report.summary.best.run if report.summary.best else ""
        now = unread[:_RUNS_AT_ONCE]

        def work() -> tuple[Mapping[str, Line | None], SweepLines]:
            found = {run: _line(run, sweep, is_over=runs[run]) for run in now}
            known = lines | found
            others = [line for run, line in known.items() if line and run != best and run in runs]
            points = _points(best, sweep, _BEST_POINTS, is_over=True) if best else None
            unread = max(0, missing - len(now))
            return found, SweepLines(report.summary.sweep, best, points, others, unread)

        def show(answer: tuple[Mapping[str, Line | None], SweepLines]) -> None:
            if self._report and self._report.summary.sweep == report.summary.sweep:
                self._lines |= answer[0]
                self._whole |= {run for run in now if runs[run]}
                self.arrived.emit(answer[1])
            self._start()

        self._background.run(work, show, self._fail)

    def _fail(self, error: Exception) -> None:
        self._is_busy = False
        raise error


def _points(run_id: str, sweep: Sweep, most: int, *, is_over: bool) -> StoredPoints | None:
    """Return the curve of a run; None if it is gone, damaged, or has no such series."""
    if not paths.is_run(run_id):
        return None
    try:
        with RunReader(paths.run_folder(run_id)) as reader:
            points = reader.history(sweep.series(reader.counts(), is_over=is_over), most)
    except (OSError, sqlite3.Error):
        return None
    return points if len(points.step) else None


def _line(run_id: str, sweep: Sweep, *, is_over: bool) -> Line | None:
    points = _points(run_id, sweep, _POINTS, is_over=is_over)
    if points is None:
        return None
    is_finite = np.isfinite(points.value)
    xs, ys = points.step[is_finite], points.value[is_finite]
    return (xs, ys) if len(xs) else None
