"""Reads the curves of a sweep's runs: the best one, and those of the others."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from PySide6.QtCore import QObject, Signal

from engine.interface.values import NoAnswer
from engine.runs.store.stored_points import StoredPoints
from engine.sweeps.report import SweepReport
from engine.sweeps.study import OVER
from engine.sweeps.sweep import Sweep
from gui.bridge.background import Background
from gui.bridge.machines.machines import UNREADABLE, Machines

Array = npt.NDArray[np.float64]

_POINTS = 300
"""Of one curve of the others, about."""

_BEST_POINTS = 4000
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
    """Reads the runs of one sweep; after its end, each is read once more.

    A run of another machine that does not answer is asked for with the next report of the sweep.
    """

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

        self._unanswered: set[str] = set()
        self._best: tuple[str, StoredPoints] | None = None
        """The best run, which is over, and its curve."""

        self._is_busy = self._is_old = False

    def show(self, report: SweepReport) -> None:
        """Read what is new in the runs of a sweep. Emits `arrived`, also while some are unread."""
        before = self._report
        if before is None or before.summary.sweep != report.summary.sweep:
            self._lines, self._whole, self._best = {}, set(), None
        self._report, self._is_old = report, True
        self._unanswered.clear()
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
        unread = [run for run in runs if run not in self._whole | self._unanswered]
        # What is new of a run that still trains, and that has a line already, comes last.
        unread.sort(key=lambda run: run in lines and not runs[run])
        missing = sum(runs[run] or run not in lines for run in unread)
        if not self._is_old and not missing:
            return
        self._is_busy, self._is_old = True, False
        best = report.summary.best.run if report.summary.best else ""
        best_before = self._best if self._best and self._best[0] == best else None
        now = unread[:_RUNS_AT_ONCE]
        machines = self._background.machines

        def work() -> tuple[Mapping[str, Line | None], SweepLines]:
            read = partial(_line, machines, sweep)
            with ThreadPoolExecutor(machines.questions_at_once(now)) as pool:
                answers = list(pool.map(read, now, [runs[run] for run in now]))
            found = {
                run: answer
                for run, answer in zip(now, answers, strict=True)
                if not isinstance(answer, NoAnswer)
            }
            known = lines | found
            others = [line for run, line in known.items() if line and run != best and run in runs]
            points = best_before[1] if best_before else _best(machines, sweep, best)
            unread = max(0, missing - len(now))
            return found, SweepLines(report.summary.sweep, best, points, others, unread)

        def show(answer: tuple[Mapping[str, Line | None], SweepLines]) -> None:
            found, told = answer
            if self._report and self._report.summary.sweep == report.summary.sweep:
                self._lines |= found
                self._whole |= {run for run in found if runs[run]}
                self._unanswered |= set(now) - found.keys()
                self._best = (best, told.points) if told.points is not None else None
                self.arrived.emit(told)
            self._start()

        self._background.run(work, show, self._fail)

    def _fail(self, error: Exception) -> None:
        self._is_busy = False
        raise error


def _points(
    machines: Machines, sweep: Sweep, run_id: str, is_over: bool, most: int
) -> StoredPoints | None:
    """Return the curve of a run; None if it is gone, damaged, or has no such series.

    Raises NoAnswer.
    """
    engine, run = machines.engine_of(run_id)
    try:
        series = sweep.series(engine.count_points(run), is_over=is_over)
        points = engine.read_history(run, series, most)
    except NoAnswer:
        raise
    except (*UNREADABLE, ValueError, sqlite3.Error):
        return None
    return points if len(points.step) else None


def _best(machines: Machines, sweep: Sweep, run_id: str) -> StoredPoints | None:
    if not run_id:
        return None
    try:
        return _points(machines, sweep, run_id, True, _BEST_POINTS)
    except NoAnswer:
        return None


def _line(machines: Machines, sweep: Sweep, run_id: str, is_over: bool) -> Line | NoAnswer | None:
    """Return the finite values of a run; None: it has none; why its machine has not answered."""
    try:
        points = _points(machines, sweep, run_id, is_over, _POINTS)
    except NoAnswer as error:
        return error
    if points is None:
        return None
    is_finite = np.isfinite(points.value)
    xs, ys = points.step[is_finite], points.value[is_finite]
    return (xs, ys) if len(xs) else None
