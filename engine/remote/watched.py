"""What is watched on another machine, also over several connections: runs, devices, sweeps."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar, cast

from engine.interface.engine import Engine, Stream
from engine.interface.news.run_news import PackedRuns, RunsNews
from engine.interface.news.sweep_news import SweepsNews, SweepsThere
from engine.interface.values import MOST_SERIES, NoAnswer, NotConnected, TooMuch
from engine.remote.session import RemoteStream, Session
from engine.runs.run_follower import RunNews
from engine.runs.run_info import RunInfo, UnreadableRun
from engine.sweeps.report import SweepReport
from engine.telemetry.snapshot import Snapshot

_log = logging.getLogger(__name__)

OnRuns = Callable[[list[RunInfo], list[UnreadableRun], list[str]], None]
"""Gets the newest runs of a machine, newest first, those that cannot be read, and the numbers of
all others."""


OnSweeps = Callable[[list[SweepReport]], None]
"""Gets all sweeps of a machine, newest first; one that has not changed is the same object."""

N = TypeVar("N")


class RemoteWatch(ABC, Generic[N]):
    """Takes what a method of the engine there yields, in a thread of its own.

    When the connection breaks, it goes on with the next one.
    """

    def __init__(self) -> None:
        self.is_over = False
        """Whether it was closed."""

        self._begins_anew = False
        self._stream: RemoteStream | None = None
        self.on_close: Callable[[], None] = lambda: None

    @abstractmethod
    def begin(self, engine: Engine) -> Stream[N | None]:
        """Call what yields the news."""

    @abstractmethod
    def take(self, news: N, machine: str) -> None:
        """Pass news of `machine` on. Raises ValueError if they cannot be read, TooMuch."""

    def refused(self, text: str) -> None:
        """It cannot be watched, or news could not be read."""
        _log.info("nothing is watched: %s", text)

    def run(self, next_session: Callable[[Session | None], tuple[Session, Engine] | None]) -> None:
        """Take news until `close`; the body of the thread.

        `next_session` waits for a session other than the one that it gets, and for its engine;
        None: there will be none, or this is over.
        """
        before: Session | None = None
        while (found := next_session(before)) is not None:
            before, engine = found
            while not self.is_over and self._take_all(engine):
                pass

    def _take_all(self, engine: Engine) -> bool:
        """Take the news of one call; return whether to call again."""
        self._begins_anew = False
        try:
            self._stream = stream = cast(RemoteStream, self.begin(engine))
        except NotConnected:
            return False
        except NoAnswer as error:
            self.refused(str(error))
            return False
        while not self.is_over and not self._begins_anew:
            try:
                news: N | None = next(stream)
                if news is not None:
                    self.take(news, engine.machine)
            except (StopIteration, NotConnected):
                return False
            except NoAnswer as error:
                self.refused(str(error))
            except TooMuch as error:
                stream.give_up(str(error))
                return False
            except Exception as error:  # the watch lives on, whatever comes from there
                self.refused(f"What comes from {engine.machine} cannot be read: {error}.")
        stream.close()
        return not self.is_over

    def begin_anew(self) -> None:
        """Let the method be called again, with what `begin` gives it now."""
        self._begins_anew = True
        self._wake()

    def close(self) -> None:
        """Take no more news; what is taken now is taken to its end."""
        self.is_over = True
        self._wake()
        self.on_close()

    def _wake(self) -> None:
        if (stream := self._stream) is not None:
            stream.wake()


class RemoteFollow(RemoteWatch[RunNews]):
    """One run that is followed. News come in a thread of the watch."""

    def __init__(
        self, run_id: str, series: Sequence[str], most: int, on_news: Callable[[RunNews], None]
    ) -> None:
        super().__init__()
        self.run_id = run_id
        self.series = tuple(series)
        self.most = most
        self._on_news = on_news
        self._cursor = b""
        self._names: set[str] = set()
        """The series whose points came."""

    def show(self, series: Sequence[str], most: int) -> None:
        """Get the points of other series from now on."""
        if (tuple(series), most) != (self.series, self.most):
            self.series, self.most = tuple(series), most
            self.begin_anew()

    def begin(self, engine: Engine) -> Stream[RunNews | None]:
        return engine.follow(self.run_id, self.series, self.most, self._cursor)

    def take(self, news: RunNews, machine: str) -> None:
        if news.info is not None and news.info.id != self.run_id:
            raise ValueError(f"{machine} tells of run {news.info.id[:50]!r}, not {self.run_id}.")
        self._names.update(each.series for each in news.curves)
        if len(self._names) > MOST_SERIES:
            raise TooMuch(f"it sends more than {MOST_SERIES:,} series of a run")
        self._on_news(news)
        self._cursor = news.cursor

    def refused(self, text: str) -> None:
        self._on_news(RunNews(trouble=text))


class ListedRuns(RemoteWatch[RunsNews]):
    """The runs of a machine."""

    def __init__(self, on_runs: OnRuns, most: int) -> None:
        """`most`: so many of the newest runs are listed, the others only counted."""
        super().__init__()
        self._most = most
        self.trashed: list[str] = []
        """Ids of the runs in the trash there, newest first."""

        self._on_runs = on_runs
        self._digests: dict[str, int] = {}
        self._rows: dict[str, bytes] = {}
        """All runs there, as they came: one that is not listed now may be the newest later."""

        self._infos: dict[str, RunInfo | UnreadableRun] = {}
        """The runs that are listed."""

    def begin(self, engine: Engine) -> Stream[RunsNews | None]:
        return engine.watch_runs(self._digests)

    def take(self, news: RunsNews, machine: str) -> None:
        assert isinstance(news.changed, PackedRuns), "another machine sends nothing else"
        rows, digests = {**self._rows, **news.changed.rows}, self._digests | news.digests
        ids = [run_id for run_id in news.ids if run_id in digests]
        self._rows = {run_id: rows[run_id] for run_id in ids}
        self._digests = {run_id: digests[run_id] for run_id in ids}
        kept, listed = self._infos, PackedRuns(self._rows, machine)
        self._infos = {
            run_id: kept[run_id]
            if run_id in kept and run_id not in news.changed.rows
            else listed.decoded(run_id)
            for run_id in ids[: self._most]
        }
        infos = [each for each in self._infos.values() if isinstance(each, RunInfo)]
        others = [each for each in self._infos.values() if isinstance(each, UnreadableRun)]
        self.trashed = news.trashed
        self._on_runs(infos, [*others, *news.unreadable], ids)


class ListedSweeps(RemoteWatch[SweepsNews]):
    """The sweeps of a machine."""

    def __init__(self, on_sweeps: OnSweeps, on_trouble: Callable[[str], None]) -> None:
        super().__init__()
        self._on_sweeps = on_sweeps
        self._on_trouble = on_trouble
        self._sweeps = SweepsThere()

    def begin(self, engine: Engine) -> Stream[SweepsNews | None]:
        return engine.watch_sweeps()

    def take(self, news: SweepsNews, machine: str) -> None:
        self._on_sweeps(self._sweeps.take(news, machine))

    def refused(self, text: str) -> None:
        self._on_trouble(text)


class DevicesWatch(RemoteWatch[Snapshot]):
    """The devices of a machine."""

    def __init__(self, on_snapshot: Callable[[Snapshot], None]) -> None:
        super().__init__()
        self._on_snapshot = on_snapshot

    def begin(self, engine: Engine) -> Stream[Snapshot | None]:
        return engine.watch_devices()

    def take(self, news: Snapshot, machine: str) -> None:
        self._on_snapshot(news)
