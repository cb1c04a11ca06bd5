"""What is pushed to another machine: news of a run, of the list of runs, of the devices.

A watch reads what is new only when the last news have arrived. So a slow link makes nothing grow:
what waits meanwhile is read at once, its points as coarser blocks.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from engine.interface import packed_points
from engine.interface.encoding import encode
from engine.remote.requests import (
    Curve,
    DevicesNews,
    Follow,
    FollowNews,
    Packed,
    RunsNews,
    Show,
    ShowDevice,
    StoryPart,
)
from engine.remote.run_rows import digest_of, row_of
from engine.remote.wire import FrameTooLarge
from engine.runs import trash
from engine.runs.run_follower import Output, RunCursor, RunFollower, RunNews
from engine.runs.run_index import RunIndex
from engine.runs.store.store_reader import StoredEvent
from engine.telemetry.helper_client import TelemetryStream
from engine.telemetry.snapshot import Snapshot

_log = logging.getLogger(__name__)

LIVE_SECONDS = 0.2
OVER_SECONDS = 1.0
"""Between two looks at a run that is active, and at one that is over."""

RUNS_SECONDS = 1.0
MOST_EVENTS = 500
"""Events in one message."""

MOST_POINTS = 50_000
LONGEST_END = 3.0
"""Seconds that a watch has to end."""


class Watch(ABC):
    """Looks for news in a thread of its own, until it is closed."""

    def __init__(self, number: int, push: Callable[[int, Any], None]) -> None:
        """`push` takes the number and the news; what it raises ends the watch."""
        self._number = number
        self._push = push
        self._closing = threading.Event()
        self._arrived = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name=f"watch {number}")

    def prepare(self) -> None:  # noqa: B027  # most need nothing
        """Start what the watch asks. Raises OSError."""

    def start(self) -> None:
        """Begin to push."""
        self._thread.start()

    def acknowledge(self) -> None:
        """The last news have arrived."""
        self._arrived.set()

    def close(self) -> None:
        """Push no more."""
        self._closing.set()
        self._arrived.set()

    def join(self) -> None:
        """Wait until it has ended; the telemetry helper takes 2 s at most."""
        if self._thread.is_alive():
            self._thread.join(LONGEST_END)

    @abstractmethod
    def _news(self) -> Any:
        """Return what is new since the last call; None: nothing is."""

    @abstractmethod
    def _pause(self) -> None:
        """Wait until the next look."""

    def _end(self) -> None:
        """Free what was used, if anything was."""
        return

    def _send(self, news: Any) -> None:
        self._push(self._number, news)

    def _look(self) -> Any:
        try:
            return self._news()
        except OSError as error:  # a disk, which may be back at the next look
            _log.info("watch %d sees nothing now: %s", self._number, error)
            return None

    def _run(self) -> None:
        try:
            while not self._closing.is_set():
                news = self._look()
                if news is not None:
                    self._arrived.clear()
                    self._send(news)
                    if not self._closing.is_set():
                        self._arrived.wait()
                self._pause()
        except OSError as error:  # the connection has ended, and with it all watches
            _log.info("watch %d ends: %s", self._number, error)
        finally:
            self._end()


class RunWatch(Watch):
    """Pushes the news of one run."""

    def __init__(self, number: int, push: Callable[[int, Any], None], request: Follow) -> None:
        super().__init__(number, push)
        self._wanted = frozenset(request.series)
        self._asked = threading.Event()
        self._follower = RunFollower(
            request.run,
            _cursor(request.cursor),
            is_wanted=lambda series: series in self._wanted,
            most=min(request.most, MOST_POINTS),
            most_events=MOST_EVENTS,
        )
        self._last_trouble = ""

    def show(self, request: Show) -> None:
        """Read other series from now on."""
        self._wanted = frozenset(request.series)
        self._follower.most = min(request.most, MOST_POINTS)
        self._asked.set()

    def close(self) -> None:
        super().close()
        self._asked.set()

    def _news(self) -> FollowNews | None:
        self._asked.clear()
        news = self._follower.poll()
        is_same_trouble = news.trouble == self._last_trouble
        self._last_trouble = news.trouble
        is_new = news.curves or news.story or news.info or news.series is not None
        if not is_new and is_same_trouble:
            return None
        return _packed_news(news, self._follower.cursor)

    def _send(self, news: Any) -> None:
        try:
            super()._send(news)
        except FrameTooLarge as error:
            text = f"What is new of this run is too large to be sent ({error}): watch it anew."
            super()._send(FollowNews(encode(self._follower.cursor), trouble=text))

    def _pause(self) -> None:
        info = self._follower.info
        is_over = info is not None and info.state.is_over
        self._asked.wait(OVER_SECONDS if is_over or self._last_trouble else LIVE_SECONDS)

    def _end(self) -> None:
        self._follower.close()


class RunsWatch(Watch):
    """Pushes the runs of the list that have changed."""

    def __init__(
        self, number: int, push: Callable[[int, Any], None], known: dict[str, int]
    ) -> None:
        super().__init__(number, push)
        self._index = RunIndex()
        self._digests = dict(known)
        self._rows: dict[str, tuple[object, int]] = {}
        self._told: tuple[list[str], dict[str, str], list[str]] | None = None

    def _news(self) -> RunsNews | None:
        changed: dict[str, Packed] = {}
        infos = self._index.refresh()
        for info in infos:
            if self._rows.get(info.id, (None, 0))[0] is info:
                continue
            row = encode(row_of(info))
            digest = digest_of(row)
            self._rows[info.id] = (info, digest)
            if self._digests.get(info.id) != digest:
                changed[info.id] = row
        ids = [info.id for info in infos]
        self._rows = {run_id: self._rows[run_id] for run_id in ids}
        self._digests = {run_id: digest for run_id, (_, digest) in self._rows.items()}
        unreadable = {each.id: each.reason for each in self._index.unreadable}
        listed = ids, unreadable, trash.trashed()
        if not changed and listed == self._told:
            return None
        self._told = listed
        return RunsNews(ids, changed, *listed[1:])

    def _pause(self) -> None:
        self._closing.wait(RUNS_SECONDS)


class DevicesWatch(Watch):
    """Pushes the newest snapshot of the devices; runs the telemetry helper meanwhile."""

    def __init__(self, number: int, push: Callable[[int, Any], None]) -> None:
        super().__init__(number, push)
        self._newest: Snapshot | None = None
        self._there = threading.Event()
        self._stream: TelemetryStream | None = None

    def prepare(self) -> None:
        self._stream = TelemetryStream(self._take)

    def close(self) -> None:
        super().close()
        self._there.set()

    def show(self, request: ShowDevice) -> None:
        """Measure the traffic of a GPU from now on."""
        if self._stream is not None:
            self._stream.set_detail(request.device)

    def _take(self, snapshot: Snapshot) -> None:
        self._newest = snapshot
        self._there.set()

    def _news(self) -> DevicesNews | None:
        self._there.clear()
        newest, self._newest = self._newest, None
        return None if newest is None else DevicesNews(newest)

    def _pause(self) -> None:
        self._there.wait()

    def _end(self) -> None:
        if self._stream is not None:
            self._stream.close()


def _cursor(packed: Packed) -> RunCursor | None:
    """Return the cursor in a request; None: begin anew, for there is none of this version."""
    try:
        return _decode_cursor(packed) if packed else None
    except (msgspec.DecodeError, RecursionError):
        return None


_decode_cursor = msgspec.msgpack.Decoder(RunCursor).decode


def _packed_news(news: RunNews, cursor: RunCursor) -> FollowNews:
    return FollowNews(
        cursor=encode(cursor),
        curves=[
            Curve(update.series, packed_points.pack(update.points), update.replaces)
            for update in news.curves
        ],
        story=[_part(each) for each in news.story],
        run=b"" if news.info is None else encode(row_of(news.info)),
        series=None if news.series is None else list(news.series),
        trouble=news.trouble,
    )


def _part(part: Sequence[StoredEvent] | Output) -> StoryPart:
    if isinstance(part, Output):
        return StoryPart(rank=part.rank, lines=list(part.lines), has_gaps=part.has_gaps)
    return StoryPart([(each.seq, each.time, encode(each.event)) for each in part])
