"""What is watched on another machine, also over several connections: runs, devices, sweeps."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from engine.interface import packed_points
from engine.interface.values import is_run_number, is_time
from engine.remote import requests
from engine.remote.requests import (
    DevicesNews,
    FollowNews,
    Packed,
    Request,
    RunsNews,
    SweepsNews,
)
from engine.remote.run_rows import digest_of, run_info, stored_event
from engine.remote.sweep_rows import SweepsThere
from engine.runs.run_follower import Output, RunNews
from engine.runs.run_info import RunInfo, UnreadableRun
from engine.runs.store.store_follower import CurveUpdate
from engine.runs.store.store_reader import StoredEvent
from engine.sweeps.report import SweepReport
from engine.telemetry.snapshot import Snapshot

_log = logging.getLogger(__name__)

UNREADABLE = (ValueError, RecursionError, OverflowError)
"""What decoding raises for nonsense, and for what only a newer version can read."""


OnRuns = Callable[[list[RunInfo], list[UnreadableRun]], None]
"""Gets all runs of a machine, newest first, and those that cannot be read."""


OnSweeps = Callable[[list[SweepReport]], None]
"""Gets all sweeps of a machine, newest first; one that has not changed is the same object."""


class RemoteWatch(ABC):
    """What is watched there, also over several connections."""

    number = 0
    """That of the call in the present session."""

    @abstractmethod
    def request(self) -> Request:
        """Return what begins or continues it."""

    @abstractmethod
    def take(self, news: Packed, machine: str) -> None:
        """Pass news of `machine` on. Raises ValueError if they cannot be read."""

    def refused(self, text: str) -> None:
        """It cannot be watched, or news could not be read."""
        _log.info("nothing is watched: %s", text)


class RemoteFollow(RemoteWatch):
    """One run that is followed. News come in the thread of the connection."""

    def __init__(
        self, run_id: str, series: Sequence[str], most: int, on_news: Callable[[RunNews], None]
    ) -> None:
        self.run_id = run_id
        self.series = tuple(series)
        self.most = most
        self._on_news = on_news
        self._cursor: Packed = b""

    def request(self) -> requests.Follow:
        return requests.Follow(self.run_id, self.series, self.most, self._cursor)

    def take(self, news: Packed, machine: str) -> None:
        found = _decode_follow(news)
        self._on_news(_run_news(self.run_id, found, machine))
        self._cursor = found.cursor

    def refused(self, text: str) -> None:
        self._on_news(RunNews(trouble=text))


class ListedRuns(RemoteWatch):
    """The runs of a machine."""

    def __init__(self, on_runs: OnRuns) -> None:
        self.trashed: list[str] = []
        """Ids of the runs in the trash there, newest first."""

        self._on_runs = on_runs
        self._rows: dict[str, Packed] = {}
        self._infos: dict[str, RunInfo | UnreadableRun] = {}

    def request(self) -> requests.WatchRuns:
        return requests.WatchRuns({each: digest_of(row) for each, row in self._rows.items()})

    def take(self, news: Packed, machine: str) -> None:
        found = _decode_runs(news)
        for run_id, row in found.changed.items():
            if is_run_number(run_id):
                self._rows[run_id] = row
                self._infos[run_id] = _run_or_reason(run_id, row, machine)
        self._rows = {each: self._rows[each] for each in found.ids if each in self._rows}
        self._infos = {each: self._infos[each] for each in self._rows}
        reasons = [
            UnreadableRun(each, _NOWHERE, why)
            for each, why in found.unreadable.items()
            if is_run_number(each)
        ]
        infos = [each for each in self._infos.values() if isinstance(each, RunInfo)]
        others = [each for each in self._infos.values() if isinstance(each, UnreadableRun)]
        self.trashed = [run_id for run_id in found.trashed if is_run_number(run_id)]
        self._on_runs(infos, [*others, *reasons])


class ListedSweeps(RemoteWatch):
    """The sweeps of a machine."""

    def __init__(self, on_sweeps: OnSweeps, on_trouble: Callable[[str], None]) -> None:
        self._on_sweeps = on_sweeps
        self._on_trouble = on_trouble
        self._sweeps = SweepsThere()

    def request(self) -> requests.WatchSweeps:
        return requests.WatchSweeps()

    def take(self, news: Packed, machine: str) -> None:
        self._on_sweeps(self._sweeps.take(_decode_sweeps(news), machine))

    def refused(self, text: str) -> None:
        self._on_trouble(text)


class DevicesWatch(RemoteWatch):
    """The devices of a machine."""

    def __init__(self, on_snapshot: Callable[[Snapshot], None]) -> None:
        self.detail = ""
        self._on_snapshot = on_snapshot

    def request(self) -> requests.WatchDevices:
        return requests.WatchDevices()

    def take(self, news: Packed, machine: str) -> None:
        self._on_snapshot(_decode_devices(news).snapshot)


def _run_news(run_id: str, found: FollowNews, machine: str) -> RunNews:
    """Return news as a `RunFollower` of this machine does. Raises ValueError."""
    story: list[Sequence[StoredEvent] | Output] = []
    for part in found.story:
        if part.events:
            story.append([stored_event(*event) for event in part.events])
        else:
            story.append(Output(part.rank, part.lines, part.has_gaps))
    curves = [
        CurveUpdate(curve.series, packed_points.unpack(curve.points), curve.replaces)
        for curve in found.curves
    ]
    info = _run_or_reason(run_id, found.run, machine) if found.run else None
    if isinstance(info, UnreadableRun):
        return RunNews(curves, story, None, found.series, info.reason)
    return RunNews(curves, story, info, found.series, found.trouble)


_NOWHERE = Path()
_decode_follow = msgspec.msgpack.Decoder(FollowNews).decode
_decode_runs = msgspec.msgpack.Decoder(RunsNews).decode
_decode_sweeps = msgspec.msgpack.Decoder(SweepsNews).decode
_decode_devices = msgspec.msgpack.Decoder(DevicesNews).decode


def _run_or_reason(run_id: str, row: Packed, machine: str) -> RunInfo | UnreadableRun:
    """Return a run, whose folder is no path of this machine, and cannot be taken for one."""
    try:
        info = run_info(row)
        if info.id != run_id:
            raise ValueError(f"it is called {info.id[:50]!r}")
        if not (is_time(info.status.started) and is_time(info.status.updated)):
            raise ValueError("it was started or changed at no time that there is")
        return info._replace(folder=Path(f"{machine}:{info.folder}"))
    except UNREADABLE as error:
        text = f"Run {run_id} can only be read by the Traindeck of its machine: {error}."
        return UnreadableRun(run_id, _NOWHERE, text)
