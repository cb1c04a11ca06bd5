"""Follows the curves of the compared runs: all of them are read in one go, in the background."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, Protocol

from PySide6.QtCore import QObject, Signal

from engine.runs.best_metrics import BestFigure, best_figures
from engine.runs.run_follower import Output, RunNews
from engine.runs.run_info import RunInfo
from engine.runs.store.store_follower import CurveUpdate, StoreFollower
from engine.runs.store.store_reader import StoredEvent
from engine.spec.metric_direction import NO_OVERRIDES
from engine.system import paths
from gui.bridge.background import Background
from gui.bridge.machines.machines import Machines, place_of

if TYPE_CHECKING:
    from engine.remote.watched import RemoteFollow

_POINTS = ((8, 20_000), (200, 2_000))
"""Up to so many runs, each curve is read with about so many points; a zoom reads more of them."""

_POINTS_OF_MANY = 250

_FIRST_SECONDS, _CHECK_SECONDS = 20.0, 0.2
"""Longest wait for the first curves of a run of another machine, while that is connected."""

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


class CurveReader(Protocol):
    """Reads new events of a run, and new points of the series that can be compared."""

    def begin(self, most: int) -> None:
        """Ask for what `read` will return, and wait for nothing."""

    def read(self, most: int) -> CurveNews:
        """Return what is new since the last call.

        A curve that is read whole has about `most` points.
        """

    def close(self) -> None:
        """Read no more."""


class OwnCurveReader(CurveReader):
    """Reads a run of this machine; no file stays open."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._directions: Mapping[str, str] = NO_OVERRIDES
        self._follower = StoreFollower(paths.run_folder(run_id))

    def begin(self, most: int) -> None:
        pass

    def read(self, most: int) -> CurveNews:
        try:
            return self._news(most) if self._follower.open() else CurveNews(self._run_id)
        except sqlite3.Error as error:
            text = f"The curves of run {self._run_id} cannot be read: {error}."
            return CurveNews(self._run_id, trouble=text)
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

    def close(self) -> None:
        pass


class RemoteCurveReader(CurveReader):
    """Takes what the connection to another machine tells of a run.

    A run that is over is followed until all of it has come: of hundreds that are compared, their
    machine looks at those only that still change.
    """

    def __init__(self, machines: Machines, run_id: str) -> None:
        self._machines, self._run_id = machines, run_id
        self._machine = place_of(run_id)[0]
        self._lock = threading.Lock()
        self._curves: list[CurveUpdate] = []
        self._events: list[StoredEvent] = []
        self._trouble = ""
        self._info: RunInfo | None = None
        self._series: list[str] | None = None
        self._missing: set[str] = set()
        """Series without any point yet."""

        self._is_there = threading.Event()
        self._follow: RemoteFollow | None = None

    def begin(self, most: int) -> None:
        if self._follow is not None or self._is_known:
            return
        with self._lock:
            self._info = self._series = None
            self._is_there.clear()
            self._follow = self._machines.follow(self._run_id, (), self._take, most)
        self._show()

    def read(self, most: int) -> CurveNews:
        self.begin(most)
        if self._follow is None:
            if self._is_known:
                return CurveNews(self._run_id)
            why = "its machine is not connected"
            return CurveNews(
                self._run_id, trouble=f"The curves of run {self._run_id} cannot be read: {why}."
            )
        deadline = time.monotonic() + _FIRST_SECONDS
        while self._machines.is_connected(self._machine) and time.monotonic() < deadline:
            if self._is_there.wait(_CHECK_SECONDS):
                break
        with self._lock:
            curves, self._curves = self._curves, []
            events, self._events = self._events, []
            info, trouble, is_whole = self._info, self._trouble, self._is_whole
        if is_whole:
            self.close()
        directions = info.status.metric_directions if info else NO_OVERRIDES
        best = self._machines.best(self._run_id) if curves else None
        return CurveNews(self._run_id, curves, events, best, directions, trouble)

    def close(self) -> None:
        with self._lock:
            follow, self._follow = self._follow, None
        if follow is not None:
            follow.close()

    @property
    def _is_whole(self) -> bool:
        """Whether the run was over, and all of it has come: the state is told after all events."""
        is_over = self._info is not None and self._info.state.is_over
        return is_over and self._series is not None and not self._missing

    @property
    def _is_known(self) -> bool:
        """Whether all has come, and the run was not resumed since then."""
        now, info = self._machines.info(self._run_id), self._info
        if now is None or info is None or not self._is_whole:
            return False
        return now.state.is_over and now.status.attempt == info.status.attempt

    def _show(self) -> None:
        """Ask for the points of the series that are known by now."""
        with self._lock:
            follow, series = self._follow, self._series
        if follow is not None and series is not None:
            follow.show(series, follow.most)

    def _take(self, news: RunNews) -> None:
        """Keep what is new; called in threads of the connection."""
        with self._lock:
            self._curves += news.curves
            for part in news.story:
                self._events += [] if isinstance(part, Output) else part
            self._info, self._trouble = news.info or self._info, news.trouble
            if news.series is not None:
                known = set(self._series or ())
                self._series = [each for each in news.series if is_compared(each)]
                self._missing |= set(self._series) - known
            self._missing -= {each.series for each in news.curves}
            is_over = self._info is not None and self._info.state.is_over
            is_there = self._is_whole or bool(news.curves and not is_over)
        if news.series is not None:
            self._show()
        if is_there or news.trouble or self._series == []:
            self._is_there.set()


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
        before = self._readers
        self._readers = {each: before.get(each) or self._reader(each) for each in run_ids}
        for run_id in before.keys() - self._readers.keys():
            before[run_id].close()
        self._waiting = {each: None for each in self._waiting if each in self._readers}

    def read(self, run_ids: Iterable[str]) -> None:
        """Read what is new of these runs, a few at a time. Emits `news` for each of these parts;
        while runs are read, others wait."""
        self._waiting.update(dict.fromkeys(run_ids))
        if not self._reading:
            self._start()

    def _reader(self, run_id: str) -> CurveReader:
        if place_of(run_id)[0]:
            return RemoteCurveReader(self._background.machines, run_id)
        return OwnCurveReader(run_id)

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

        def work() -> list[tuple[CurveReader, CurveNews]]:
            for reader in readers:
                reader.begin(most)
            return [(reader, reader.read(most)) for reader in readers]

        self._background.run(work, self._report, self._fail)

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
