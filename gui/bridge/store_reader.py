"""Follows the watched run on a timer, and emits what is new."""

from __future__ import annotations

import logging

from PySide6.QtCore import QObject, QTimer, Signal

from engine.runs.run_follower import Output, RunFollower

_log = logging.getLogger(__name__)

LIVE_MS = 100
OVER_MS = 1000
"""A run that is over is read less often: another window or the command line may resume it."""


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

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.timer = QTimer(self)
        self.timer.timeout.connect(self.poll)
        self._follower: RunFollower | None = None
        self.watch(None)

    def watch(self, run_id: str | None) -> None:
        """Follow `run_id` from its beginning; None: no run."""
        if self._follower is not None:
            self._follower.close()
        _log.info("follows run %s", run_id)
        self._last_trouble = ""
        if run_id is None:
            self._follower = None
            self.timer.stop()
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
        over = news.trouble or (follower.info is not None and follower.info.state.is_over)
        interval = OVER_MS if over else LIVE_MS
        if follower is self._follower and self.timer.interval() != interval:
            self.timer.start(interval)
