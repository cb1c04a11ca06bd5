"""Follows the store and the logs of the watched run on a timer, and emits what is new."""

from __future__ import annotations

import logging
import re
import sqlite3
import time
from bisect import bisect_right
from pathlib import Path
from typing import NamedTuple

import msgspec
from PySide6.QtCore import QObject, QTimer, Signal

from engine.runs.run_info import NoSuchRun, RunInfo, get_run
from engine.runs.run_state import RunStatus
from engine.runs.store.store_follower import StoreFollower
from engine.runs.store.store_reader import StoredEvent
from engine.system import paths
from gui.bridge.log_tail import LogTail

_log = logging.getLogger(__name__)

LIVE_MS = 100
OVER_MS = 1000
"""A run that is over is read less often: another window or the command line may resume it."""

ALIVE_CHECK_SECONDS = 1.0
"""Seconds between two checks whether the supervisor process is alive."""

_LOG_NAME = re.compile(r"rank(\d+)\.log")


class _Output(NamedTuple):
    time: float
    """When the file was last written, in seconds since the epoch."""

    rank: int
    lines: list[str]
    has_gaps: bool
    """Whether lines before these were skipped."""


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
        self._follower: StoreFollower | None = None
        self.watch(None)

    def watch(self, run_id: str | None) -> None:
        """Follow `run_id` from its beginning; None: no run."""
        self._close()
        _log.info("follows run %s", run_id)
        self._run_id = run_id
        self._info: RunInfo | None = None
        self._status: RunStatus | None = None
        self._info_read_at = 0.0
        self._tails: dict[int, LogTail] = {}
        self._last_trouble = ""
        if run_id is None:
            self._follower = None
            self.timer.stop()
        else:
            self._follower = StoreFollower(paths.run_folder(run_id))
            self.timer.start(LIVE_MS)
            self.poll()

    def poll(self) -> None:
        """Read and emit everything that is new; the timer calls this."""
        follower = self._follower
        if self._run_id is None or follower is None:
            return
        folder, changed = paths.run_folder(self._run_id), False
        events: list[StoredEvent] = []
        try:
            # The state is read first and emitted last, after all its events and points.
            follower.open()
            with follower.at_one_time():  # cards, plots and list show one and the same epoch
                changed = self._poll_store(self._run_id, follower)
                events = follower.new_events()
        except (sqlite3.Error, msgspec.DecodeError, msgspec.ValidationError) as error:
            self._close()
            _log.info("run %s: its store cannot be read: %s", self._run_id, error)
            text = self.tr("The store of run {run} cannot be read: {error}. See {folder}.")
            self._report_trouble(text.format(run=self._run_id, error=error, folder=folder))
        except NoSuchRun as error:
            self._report_trouble(str(error))
        else:
            self._last_trouble = ""
        self._emit_in_order(events, self._new_output(folder))
        if changed:
            self.status_changed.emit(self._info)
        over = self._last_trouble or (self._info is not None and self._info.state.is_over)
        interval = OVER_MS if over else LIVE_MS
        if self._run_id is not None and self.timer.interval() != interval:
            self.timer.start(interval)

    def _poll_store(self, run_id: str, follower: StoreFollower) -> bool:
        """Read status and curves, and emit the points; return whether the RunInfo changed."""
        changed = self._refresh_info(run_id, follower.status())
        # The state `finished` is emitted only after every point of the run.
        is_over = self._info is not None and self._info.state.is_over
        for series, points, replaces in follower.new_curves(to_the_end=is_over):
            (self.curve if replaces else self.points).emit(series, points)
        return changed

    def _emit_in_order(self, events: list[StoredEvent], output: list[_Output]) -> None:
        """Emit events and output in their order. Lines have no times, but no line is newer
        than its file: so emit the lines of a rank after the events that are older than its file,
        and before the newer events."""
        emitted = 0
        for part in sorted(output, key=lambda each: each.time):
            first = emitted
            emitted = bisect_right(events, part.time, lo=first, key=lambda each: each.time)
            if emitted > first:
                self.events.emit(events[first:emitted])
            if part.has_gaps:
                self.lines_skipped.emit()
            self.log_lines.emit(part.rank, part.lines)
        if events[emitted:]:
            self.events.emit(events[emitted:])

    def _refresh_info(self, run_id: str, status: RunStatus) -> bool:
        """Read the run again if its status changed or its supervisor may have died; return whether
        the run changed."""
        now, before = time.monotonic(), self._info
        if before is not None and now - self._info_read_at < ALIVE_CHECK_SECONDS:
            if status == self._status:
                return False
            if _is_same_attempt(before, status):
                # The spec has not changed and need not be read ten times a second.
                self._status = status
                self._info = before._replace(status=status)
                return True
        self._status, self._info_read_at = status, now
        self._info = get_run(run_id)  # which does not wait for a supervisor that is silent
        return self._info != before

    def _new_output(self, folder: Path) -> list[_Output]:
        found = []
        over = self._info is not None and self._info.state.is_over
        for path in sorted((folder / "logs").glob("rank*.log")):
            match = _LOG_NAME.fullmatch(path.name)
            if match is None:
                continue
            rank = int(match[1])
            try:
                tail = self._tails.setdefault(rank, LogTail(path))
                lines = tail.read(whole=over)
                written = path.stat().st_mtime
            except OSError as error:
                text = self.tr("The log {path} cannot be read: {error}.")
                self._report_trouble(text.format(path=path, error=error))
                continue
            if lines:
                found.append(_Output(written, rank, lines, tail.has_gaps))
        return found

    def _report_trouble(self, sentence: str) -> None:
        if sentence != self._last_trouble:
            self._last_trouble = sentence
            self.trouble.emit(sentence)

    def _close(self) -> None:
        if self._follower is not None:
            self._follower.close()


def _is_same_attempt(info: RunInfo, status: RunStatus) -> bool:
    """Whether `status` is a later one of the same attempt, in the same state."""
    same = (status.attempt, status.state) == (info.status.attempt, info.state)
    return same and not info.state.is_over
