"""Follows the curves of the compared runs: all of them are read in one go, in the background."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import NamedTuple

from PySide6.QtCore import QObject, Signal

from engine.interface.values import NotConnected
from engine.runs.best_metrics import BestFigure
from engine.runs.run_info import NoSuchRun
from engine.runs.store.store_follower import CurveUpdate
from engine.runs.store.store_reader import StoredEvent
from engine.spec.metric_direction import NO_OVERRIDES
from gui.bridge.background import Background
from gui.bridge.machines.machines import Machines

_POINTS = ((8, 20_000), (200, 2_000))
"""Up to so many runs, each curve is read with about so many points; a zoom reads more of them."""

_POINTS_OF_MANY = 250

_RUNS_AT_ONCE = 16
"""Runs that are read before those that were read are drawn."""


class CurveNews(NamedTuple):
    """What is new of one run."""

    run_id: str
    curves: Sequence[CurveUpdate] = ()
    events: Sequence[StoredEvent] = ()
    best: Mapping[str, BestFigure] | None = None
    """The best value of each validation metric, by its name; None: as before."""

    metric_directions: Mapping[str, str] = NO_OVERRIDES
    """`min` or `max` by metric, where the recipe overrides the general rule."""

    trouble: str = ""
    """Why the run cannot be read, as a sentence; empty: it can."""

    is_late: bool = False
    """Whether it has to be asked for again, once its machine is connected."""


class CurveReader:
    """Reads new events of a run, and new points of the series that can be compared."""

    def __init__(self, machines: Machines, run_id: str) -> None:
        self._machines, self._run_id = machines, run_id
        self._cursor = b""

    def read(self, most: int) -> CurveNews:
        """Return what is new since the last call.

        A curve that is read whole has about `most` points.
        """
        run_id = self._run_id
        try:
            engine, run = self._machines.engine_of(run_id)
            found = engine.read_curves(run, most, self._cursor)
        except NotConnected:
            return CurveNews(run_id, is_late=True)
        except NoSuchRun:
            return CurveNews(run_id)  # the list of runs says so
        except (OSError, ValueError, sqlite3.Error) as error:
            text = f"The curves of run {run_id} cannot be read: {str(error).rstrip('.')}."
            return CurveNews(run_id, trouble=text)
        self._cursor = found.cursor
        return CurveNews(run_id, found.curves, found.events, found.best, found.metric_directions)


class CurveBatch(QObject):
    """Reads the curves of the chosen runs on other threads."""

    news = Signal(object)
    """list[CurveNews]: a part of the answer to `read`."""

    def __init__(self, background: Background, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._background = background
        self._readers: dict[str, CurveReader] = {}
        self._waiting: dict[str, None] = {}
        self._reading = 0

    @property
    def unread(self) -> int:
        """The number of runs that are being read, or wait for that."""
        return self._reading + len(self._waiting)

    def follow(self, run_ids: Iterable[str]) -> None:
        """Follow exactly these runs; a run that was not followed is read from its beginning."""
        before, machines = self._readers, self._background.machines
        self._readers = {each: before.get(each) or CurveReader(machines, each) for each in run_ids}
        self._waiting = {each: None for each in self._waiting if each in self._readers}

    def read(self, run_ids: Iterable[str]) -> None:
        """Read what is new of these runs, a few at a time. Emits `news` for each of these parts;
        while runs are read, others wait."""
        self._waiting.update(dict.fromkeys(run_ids))
        if not self._reading:
            self._start()

    def _start(self) -> None:
        next_ids = list(islice(self._waiting, _RUNS_AT_ONCE))
        readers = [self._readers[each] for each in next_ids]
        for each in next_ids:
            del self._waiting[each]
        self._reading = len(readers)
        if not readers:
            return
        count = len(self._readers)
        machines = self._background.machines
        most = next((most for runs, most in _POINTS if count <= runs), _POINTS_OF_MANY)

        def work() -> list[tuple[CurveReader, CurveNews]]:
            with ThreadPoolExecutor(machines.questions_at_once(next_ids)) as pool:
                found = pool.map(lambda reader: reader.read(most), readers)
                return list(zip(readers, found, strict=True))

        self._background.run(work, self._report, self._fail)

    def _report(self, found: list[tuple[CurveReader, CurveNews]]) -> None:
        news = [each for reader, each in found if self._readers.get(each.run_id) is reader]
        self._start()
        self.news.emit(news)

    def _fail(self, error: Exception) -> None:
        self._reading = 0
        raise error
