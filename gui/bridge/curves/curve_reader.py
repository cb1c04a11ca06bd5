"""Follows the curves of the compared runs: all of them are read in one go, in the background."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from PySide6.QtCore import QObject, Signal

from engine.runs.best_metrics import BestFigure, best_figures
from engine.runs.store.store_follower import CurveUpdate, StoreFollower
from engine.runs.store.store_reader import StoredEvent
from engine.spec.metric_direction import NO_OVERRIDES
from engine.system import paths
from gui.bridge.background import Background
from gui.style.translation import translate

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


class CurveReader:
    """Reads new events of a run, and new points of the series that can be compared."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._directions: Mapping[str, str] = NO_OVERRIDES
        self._follower = StoreFollower(paths.run_folder(run_id))

    def read(self, most: int) -> CurveNews:
        """Return what is new since the last call; no file stays open.

        A curve that is read whole has about `most` points.
        """
        try:
            return self._news(most) if self._follower.open() else CurveNews(self._run_id)
        except sqlite3.Error as error:
            text = translate("CurveReader", "The curves of run {run} cannot be read: {error}.")
            return CurveNews(self._run_id, trouble=text.format(run=self._run_id, error=error))
        finally:
            self._follower.close()

    def _news(self, most: int) -> CurveNews:
        events = self._follower.new_events()
        curves = list(self._follower.new_curves(is_compared, to_the_end=True, most=most))
        best, reader = None, self._follower.reader
        if reader and any(update.series.startswith("validation/") for update in curves):
            self._directions = reader.status().metric_directions
            best = best_figures(reader)
        return CurveNews(self._run_id, curves, events, best, self._directions)


class CurveBatch(QObject):
    """Reads the stores of the chosen runs on another thread."""

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
        self._readers = {each: self._readers.get(each) or CurveReader(each) for each in run_ids}
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
        most = next((most for runs, most in _POINTS if count <= runs), _POINTS_OF_MANY)
        self._background.run(
            lambda: [(reader, reader.read(most)) for reader in readers],
            self._report,
            self._fail,
        )

    def _report(self, found: list[tuple[CurveReader, CurveNews]]) -> None:
        news = [each for reader, each in found if self._readers.get(each.run_id) is reader]
        self._start()
        self.news.emit(news)

    def _fail(self, error: Exception) -> None:
        self._reading = 0
        raise error


def is_compared(series: str) -> bool:
    """Whether the comparison shows `series`: it does not show curves of devices or ranks."""
    return not series.startswith(("device/", "rank/"))
