"""Follows the watched run, here on a timer and elsewhere over its connection; emits what is new."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal

from engine.runs.run_follower import Output, RunFollower, RunNews
from engine.runs.run_info import RunInfo
from engine.runs.run_state import RunState
from gui.bridge.machines.machines import Machines, named, place_of

if TYPE_CHECKING:
    from engine.remote.watched import RemoteFollow

_log = logging.getLogger(__name__)

LIVE_MS = 100
OVER_MS = 1000
"""A run that is over is read less often: another window or the command line may resume it."""

_LOOK_MS = 500
"""Between two looks at which curves of a run of another machine are in sight."""


class StoreReader(QObject):
    """Follows the watched run in the same way whether it is active or has ended."""

    status_changed = Signal(object)
    """RunInfo, whenever it has changed."""

    events = Signal(object)
    """list[StoredEvent], oldest first."""

    points = Signal(str, object)
    """Series, and the StoredPoints to append."""

    curve = Signal(str, object)
    """Series, and the StoredPoints that replace all its earlier points."""

    log_lines = Signal(int, list)
    """Rank, and list[str]: new lines of its output."""

    lines_skipped = Signal()
    """Emitted before `log_lines` if lines before these were skipped."""

    trouble = Signal(str)
    """A sentence: the run cannot be read."""

    def __init__(self, machines: Machines, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._machines = machines
        self.timer = QTimer(self)
        self.timer.timeout.connect(self.poll)
        self._follower: RunFollower | None = None
        self._followed: tuple[str, RemoteFollow] | None = None
        self._watch_number = 0
        self.out_of_sight: Callable[[], Collection[str]] = tuple
        """Returns the series that need not be fetched from another machine now."""

        self._series: Sequence[str] = ()
        self._wanted: Sequence[str] = ()
        self._told: RunInfo | None = None
        self._look = QTimer(self, interval=_LOOK_MS)
        self._look.timeout.connect(self._show_in_sight)
        machines.runs_listed.connect(self._show_listed)
        self.watch(None)

    def watch(self, run_id: str | None) -> None:
        """Follow `run_id` from its beginning; None: no run."""
        if self._follower is not None:
            self._follower.close()
            self._follower = None
        if self._followed is not None:
            self._followed[1].close()
            self._followed = None
            self._look.stop()
        self._watch_number += 1
        _log.info("follows run %s", run_id)
        self._last_trouble = ""
        if run_id is None:
            self.timer.stop()
        elif place_of(run_id)[0]:
            self.timer.stop()
            self._follow_elsewhere(run_id)
        else:
            self._follower = RunFollower(run_id)
            self.timer.start(LIVE_MS)
            self.poll()

    def poll(self) -> None:
        """Read and emit everything that is new; the timer calls this."""
        follower = self._follower
        if follower is None:
            return
        news = follower.poll()
        self._emit(news)
        over = news.trouble or (follower.info is not None and follower.info.state.is_over)
        interval = OVER_MS if over else LIVE_MS
        if follower is self._follower and self.timer.interval() != interval:
            self.timer.start(interval)

    def _follow_elsewhere(self, run_id: str) -> None:
        follow = self._machines.follow(run_id, (), partial(self._take, self._watch_number))
        if follow is not None:
            self._followed = run_id, follow
            self._series = self._wanted = ()
            self._told = None
            self._look.start()
        else:
            text = f"Run {run_id} cannot be shown: {place_of(run_id)[0]} is not connected."
            self.trouble.emit(text)

    def _take(self, number: int, news: RunNews) -> None:
        if number != self._watch_number or self._followed is None:
            return
        if news.series is not None:
            self._series = news.series
            self._show_in_sight()
        info = news.info and named(place_of(self._followed[0])[0], news.info)
        self._told = info or self._told
        if news.curves and self._told is not None and self._told.state.is_over:
            info = self._told  # the figures are those of the points up to a status
        self._emit(news._replace(info=info))

    def _show_in_sight(self) -> None:
        """Fetch the points of the series in sight; one that is new is fetched to be placed."""
        if self._followed is None:
            return
        hidden = self.out_of_sight()
        wanted = [series for series in self._series if series not in hidden]
        if wanted != self._wanted:
            self._wanted = wanted
            follow = self._followed[1]
            follow.show(wanted, follow.most)

    def _show_listed(self, machine: str, infos: Iterable[RunInfo], _: object) -> None:
        """Show the state of the watched run when its machine is not connected any more, and what
        was noted on it."""
        if self._followed is None:
            return
        told = self._told
        for info in infos:
            if info.id != self._followed[0]:
                continue
            if info.state is RunState.ELSEWHERE:
                self.status_changed.emit(info)
            elif told is not None and info.notes != told.notes:
                self._told = told._replace(notes=info.notes)
                self.status_changed.emit(self._told)

    def _emit(self, news: RunNews) -> None:
        for series, points, replaces in news.curves:
            (self.curve if replaces else self.points).emit(series, points)
        for part in news.story:
            if isinstance(part, Output):
                if part.has_gaps:
                    self.lines_skipped.emit()
                self.log_lines.emit(part.rank, list(part.lines))
            else:
                self.events.emit(list(part))
        if news.trouble and news.trouble != self._last_trouble:
            self.trouble.emit(news.trouble)
        self._last_trouble = news.trouble
        if news.info is not None:
            self.status_changed.emit(news.info)
