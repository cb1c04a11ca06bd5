"""Follows a run by repeated reads of its files: status, curves, events and output of its ranks.

The window reads the runs of this machine so, and an engine follows its runs so for others.
"""

from __future__ import annotations

import logging
import re
import sqlite3
import time
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from engine.files.log_tail import LogPlace, LogTail
from engine.runs.run_info import DamagedRun, NoSuchRun, RunInfo, get_run
from engine.runs.run_state import RunStatus
from engine.runs.store.store_follower import (
    BEGIN,
    MOST_WHOLE,
    CurveUpdate,
    StoreCursor,
    StoreFollower,
)
from engine.runs.store.store_reader import MOST_EVENTS, StoredEvent
from engine.system import paths

_log = logging.getLogger(__name__)

ALIVE_CHECK_SECONDS = 1.0
"""Seconds between two checks whether the supervisor process is alive."""

_LOG_NAME = re.compile(r"rank(\d+)\.log")


class Output(NamedTuple):
    """New lines of one rank."""

    rank: int
    lines: Sequence[str]
    has_gaps: bool = False
    """Whether lines before these were skipped."""


Story = Sequence[Sequence[StoredEvent] | Output]
"""Events and output in their order."""


class RunNews(NamedTuple):
    """What is new of a run. Who shows it begins with the curves, and ends with the `info`."""

    curves: Sequence[CurveUpdate] = ()
    story: Story = ()
    info: RunInfo | None = None
    """The run, if it has changed. It is over only after all its points and events."""

    series: Sequence[str] | None = None
    """The names of all series, also of those that are not wanted, if they have changed."""

    trouble: str = ""
    """Why the run cannot be read now, in a sentence; empty: it can."""

    cursor: bytes = b""
    """How far the run was read, for `Engine.follow`, which alone gives it."""


class RunCursor(NamedTuple):
    """How far a run was read; another follower of the same run goes on from it."""

    store: StoreCursor = BEGIN
    logs: Mapping[int, LogPlace] = MappingProxyType({})
    """By rank."""


class RunFollower:
    """Each `poll` returns what is new since the last one. For one thread."""

    def __init__(
        self,
        run_id: str,
        cursor: RunCursor | None = None,
        *,
        is_wanted: Callable[[str], bool] = lambda series: True,
        most: int = MOST_WHOLE,
        most_events: int = MOST_EVENTS,
    ) -> None:
        """Follow the run from `cursor` on; None: from its beginning.

        Only series for which `is_wanted` are read, and a long one in about `most` points. One call
        returns at most `most_events`.
        """
        cursor = cursor or RunCursor()
        self.is_wanted = is_wanted
        self.most = most
        self._run_id = run_id
        self._most_events = most_events
        self._folder = paths.run_folder(run_id)
        self._store = StoreFollower(self._folder, cursor.store)
        self._tails = {
            rank: LogTail(self._log_file(rank), place) for rank, place in cursor.logs.items()
        }
        self._info: RunInfo | None = None
        self._told: RunInfo | None = None
        self._told_series: tuple[str, ...] | None = None
        self._status: RunStatus | None = None
        self._info_read_at = 0.0

    @property
    def cursor(self) -> RunCursor:
        """How far the run was read."""
        logs = {rank: tail.place for rank, tail in self._tails.items()}
        return RunCursor(self._store.cursor, logs)

    @property
    def info(self) -> RunInfo | None:
        """The run as it was told last; None before that."""
        return self._told

    def poll(self) -> RunNews:
        """Read everything that is new. Raises nothing that a damaged file or a lost disk causes."""
        curves: list[CurveUpdate] = []
        events: list[StoredEvent] = []
        trouble = ""
        try:
            # The state is read first and told last, after all its events and points.
            self._store.open()
            with self._store.at_one_time():  # cards, plots and list show one and the same epoch
                self._refresh_info(self._store.status())
                # The state `finished` is told only after every point of the run.
                is_over = self._info is not None and self._info.state.is_over
                curves.extend(
                    self._store.new_curves(self.is_wanted, to_the_end=is_over, most=self.most)
                )
                events = self._store.new_events(self._most_events)
        except (sqlite3.Error, msgspec.DecodeError, msgspec.ValidationError) as error:
            self.close()
            _log.info("run %s: its store cannot be read: %s", self._run_id, error)
            trouble = (
                f"The store of run {self._run_id} cannot be read: {error}. See {self._folder}."
            )
        except DamagedRun as error:
            trouble = str(error)
        except NoSuchRun:
            trouble = f"Run {self._run_id} was deleted, or is in the trash."
        output, log_trouble = self._new_output()
        info = None
        has_all_events = len(events) < self._most_events
        if has_all_events and not trouble and self._info != self._told:
            info = self._told = self._info
        series = None
        if self._store.series != self._told_series:
            series = self._told_series = self._store.series
        return RunNews(curves, _in_order(events, output), info, series, trouble or log_trouble)

    def close(self) -> None:
        """Close the store; the next `poll` opens it again and reads on."""
        self._store.close()

    def _refresh_info(self, status: RunStatus) -> None:
        """Read the run again if its status changed or its supervisor may have died."""
        now, before = time.monotonic(), self._info
        if before is not None and now - self._info_read_at < ALIVE_CHECK_SECONDS:
            if status == self._status:
                return
            if _is_same_attempt(before, status):
                # The spec has not changed and need not be read ten times a second.
                self._status = status
                self._info = before._replace(status=status)
                return
        self._status, self._info_read_at = status, now
        self._info = get_run(self._run_id)  # which does not wait for a supervisor that is silent

    def _new_output(self) -> tuple[list[tuple[float, Output]], str]:
        """Return new output with the time of its file, and why a log cannot be read."""
        found, trouble = [], ""
        over = self._info is not None and self._info.state.is_over
        for path in sorted((self._folder / "logs").glob("rank*.log")):
            match = _LOG_NAME.fullmatch(path.name)
            if match is None:
                continue
            rank = int(match[1])
            try:
                tail = self._tails.setdefault(rank, LogTail(path))
                lines = tail.read(whole=over)
                written = path.stat().st_mtime
            except OSError as error:
                trouble = f"The log {path} cannot be read: {error}."
                continue
            if lines:
                found.append((written, Output(rank, lines, tail.has_gaps)))
        return found, trouble

    def _log_file(self, rank: int) -> Path:
        return paths.log_file(self._folder, rank)


def _in_order(
    events: Sequence[StoredEvent], output: Sequence[tuple[float, Output]]
) -> list[Sequence[StoredEvent] | Output]:
    """Return events and output in their order. Lines have no times, but no line is newer than its
    file: so the lines of a rank come after the events that are older than its file, and before the
    newer events."""
    story: list[Sequence[StoredEvent] | Output] = []
    told = 0
    for written, part in sorted(output, key=lambda each: each[0]):
        first = told
        told = bisect_right(events, written, lo=first, key=lambda each: each.time)
        if told > first:
            story.append(events[first:told])
        story.append(part)
    if events[told:]:
        story.append(events[told:])
    return story


def _is_same_attempt(info: RunInfo, status: RunStatus) -> bool:
    """Whether `status` is a later one of the same attempt, in the same state."""
    same = (status.attempt, status.state) == (info.status.attempt, info.state)
    return same and not info.state.is_over
