"""What is watched on this machine: each generator yields what is new, and None while nothing is.

A generator reads what is new only when it is asked for it. So a slow link makes nothing grow: what
waits meanwhile is read at once, its points as coarser blocks.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from engine.interface.news.run_news import RunsNews, RunUpdate, digest_of, encode_run
from engine.interface.news.sweep_news import MOST_SWEEPS, SweepParts, SweepsNews
from engine.interface.value_encoding import encode
from engine.interface.values import MOST_RUNS
from engine.runs import run_info, trash
from engine.runs.run_follower import RunCursor, RunFollower, RunNews
from engine.runs.run_index import RunIndex
from engine.runs.run_info import RunInfo
from engine.runs.run_state import RunState
from engine.runs.store.store_follower import StoreFollower
from engine.runs.store.store_reader import MOST_EVENTS as MOST_STORED_EVENTS
from engine.sweeps.report import SweepIndex
from engine.system import paths
from engine.system.program import call
from engine.telemetry.helper_client import TelemetryStream
from engine.telemetry.snapshot import Snapshot

_log = logging.getLogger(__name__)

LIVE_SECONDS = 0.2
OVER_SECONDS = 1.0
"""Between two looks at a run that is active, and at one that is over."""

LIST_SECONDS = 1.0
"""Between two looks at the runs, or at the sweeps."""

EVENT_SECONDS = 0.1
"""Between two looks at the events of a run; the supervisor commits about as often."""

STORE_SECONDS = 20.0
"""Time for a supervisor to create the store of its run."""

MOST_EVENTS = 500
"""Events in one part of the news of a run."""

N = TypeVar("N")


class NoStore(OSError):
    """The store of a run is missing or damaged; the text is a sentence."""


def follow_run(
    run: str, series: Sequence[str], most: int, cursor: bytes
) -> Generator[RunNews | None]:
    """See `Engine.follow`."""
    wanted = frozenset(series)
    follower = RunFollower(
        run,
        _cursor(cursor),
        is_wanted=lambda name: name in wanted,
        most=most,
        most_events=MOST_EVENTS,
    )
    last_trouble = ""
    with closing(follower):
        while True:
            news = follower.poll()
            is_new = news.curves or news.story or news.info or news.series is not None
            if is_new or news.trouble != last_trouble:
                yield news._replace(cursor=encode(follower.cursor))
            else:
                yield None
            last_trouble = news.trouble
            is_over = follower.info is not None and follower.info.state.is_over
            time.sleep(OVER_SECONDS if is_over or last_trouble else LIVE_SECONDS)


def watch_events(run: str, after: int, attempt: int) -> Generator[RunUpdate | None]:
    """See `Engine.watch_events`."""
    folder = paths.run_folder(run)
    with closing(_opened(run, folder)) as follower:
        assert follower.reader is not None
        after = follower.reader.last_seq() if after < 0 else after
        follower.skip_to(after)
        told = None
        while True:
            try:
                update = _read_update(folder, follower, after)
            except sqlite3.DatabaseError as error:
                text = f"The store of run {run}, in {folder}, cannot be read: {error}."
                raise NoStore(f"{text} `{call(f'show {run}')}` says how the run is.") from error
            after = update.events[-1].seq if update.events else after
            yield None if update == told else update
            told = update._replace(events=[])
            has_begun = update.status.attempt >= attempt
            if has_begun and update.state.is_over and len(update.events) < MOST_STORED_EVENTS:
                return
            time.sleep(EVENT_SECONDS)


def _opened(run: str, folder: Path) -> StoreFollower:
    """Open the store; wait if the supervisor has not created it yet. Raises NoStore."""
    follower = StoreFollower(folder)
    deadline = time.monotonic() + STORE_SECONDS
    while True:
        with suppress(sqlite3.OperationalError):  # it has no tables yet
            if follower.open():
                return follower
        if time.monotonic() > deadline:
            raise NoStore(f"Run {run} has no store: its supervisor wrote none.")
        time.sleep(EVENT_SECONDS)


def _read_update(folder: Path, follower: StoreFollower, after: int) -> RunUpdate:
    status, state, _, unrecorded = run_info.present(folder, follower.status())
    if state is RunState.INTERRUPTED:
        # The supervisor may have written its last event between the two lines above.
        status = follower.status()
        state = run_info.state_of(status)
    recorded = follower.new_events()
    known = recorded[-1].seq if recorded else after
    found = [*recorded, *(each for each in unrecorded if each.seq > known)]
    return RunUpdate(status, state, [each for each in found if each.seq > after])


def watch_runs(known: Mapping[str, int]) -> Generator[RunsNews | None]:
    """See `Engine.watch_runs`."""
    index, digests = RunIndex(), dict(known)
    read: dict[str, RunInfo] = {}
    told: tuple[object, ...] = ()

    def look() -> RunsNews | None:
        nonlocal read, digests, told
        infos = index.refresh()[:MOST_RUNS]
        changed = {each.id: each for each in infos if read.get(each.id) is not each}
        found = {run_id: digest_of(encode_run(each)) for run_id, each in changed.items()}
        new = {run_id for run_id, digest in found.items() if digests.get(run_id) != digest}
        read = {each.id: each for each in infos}
        digests = {run_id: (digests | found)[run_id] for run_id in read}
        ids = list(read)
        unreadable, trashed = index.unreadable[:MOST_RUNS], trash.trashed()[:MOST_RUNS]
        if not new and told == (ids, unreadable, trashed):
            return None
        told = ids, unreadable, trashed
        news = {run_id: digests[run_id] for run_id in ids if run_id in new}
        return RunsNews(ids, [read[run_id] for run_id in news], news, unreadable, trashed)

    return _look_again(look)


def watch_sweeps() -> Generator[SweepsNews | None]:
    """See `Engine.watch_sweeps`."""
    index, parts = SweepIndex(), SweepParts()
    return _look_again(lambda: parts.news(index.read()[:MOST_SWEEPS]), lambda: parts.has_more)


def _look_again(
    look: Callable[[], N | None], has_more: Callable[[], bool] = lambda: False
) -> Generator[N | None]:
    """Yield what each look finds; a disk that is away may be back at the next one."""
    while True:
        try:
            news = look()
        except OSError as error:
            _log.info("nothing is seen now: %s", error)
            news = None
        yield news
        if not has_more():
            time.sleep(LIST_SECONDS)


class DeviceWatches:
    """Watches the devices for each who asks, in a telemetry helper of its own."""

    def __init__(self) -> None:
        self._streams: list[TelemetryStream] = []
        self._detail = ""

    def show_traffic(self, device: str) -> None:
        """See `Engine.show_traffic`."""
        self._detail = device
        for each in list(self._streams):
            each.set_detail(device)

    def watch(self) -> Generator[Snapshot | None]:
        """See `Engine.watch_devices`."""
        newest: list[Snapshot] = []
        is_there = threading.Event()

        def take(snapshot: Snapshot) -> None:
            newest[:] = [snapshot]
            is_there.set()

        with closing(TelemetryStream(take)) as stream:
            self._streams.append(stream)
            try:
                stream.set_detail(self._detail)
                while True:
                    is_there.wait(LIST_SECONDS)
                    is_there.clear()
                    yield newest.pop() if newest else None
            finally:
                self._streams.remove(stream)


def _cursor(packed: bytes) -> RunCursor | None:
    """Return the cursor in a question; None: begin anew, for there is none of this version."""
    try:
        return _decode_cursor(packed) if packed else None
    except (msgspec.DecodeError, RecursionError):
        return None


_decode_cursor = msgspec.msgpack.Decoder(RunCursor).decode
