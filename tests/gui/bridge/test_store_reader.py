"""The bridge from a store to the widgets, against stores that the tests write."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pytestqt.qtbot import QtBot

from engine.messages import channel, heartbeat, status_question
from engine.messages.events import EpochEnded, RunEnded
from engine.remote.watched import RemoteFollow
from engine.runs import run_info
from engine.runs.run_follower import RunFollower, RunNews
from engine.runs.run_info import RunInfo
from engine.runs.run_notes import RunNotes
from engine.runs.run_state import RunState
from engine.runs.store import store_follower
from engine.runs.store.store_reader import RunReader
from engine.supervisor.inbox import Inbox
from gui.bridge.machines.machines import Machines
from gui.bridge.store_reader import LIVE_MS, OVER_MS, StoreReader
from tests.gui.conftest import Record


class Screen:
    """Takes what the reader says, as the widgets would."""

    def __init__(self, reader: StoreReader) -> None:
        self.curves: dict[str, list[float]] = {}
        self.events: list[Any] = []
        self.infos: list[RunInfo] = []
        self.states: list[RunState] = []
        self.log: list[tuple[int, str]] = []
        self.troubles: list[str] = []
        reader.curve.connect(lambda name, new: self.curves.update({name: list(new.step)}))
        reader.points.connect(lambda name, new: self.curves[name].extend(new.step))
        reader.events.connect(lambda new: self.events.extend(each.event for each in new))
        reader.status_changed.connect(self.infos.append)
        reader.status_changed.connect(lambda info: self.states.append(info.state))
        reader.log_lines.connect(lambda rank, new: self.log.extend((rank, line) for line in new))
        reader.trouble.connect(self.troubles.append)


@pytest.fixture
def reader(qtbot: QtBot) -> Iterator[StoreReader]:
    reader = StoreReader(Machines())
    yield reader
    reader.watch(None)


def test_a_live_run_is_read_and_appended(reader: StoreReader, record: Record, qtbot: QtBot) -> None:
    screen = Screen(reader)
    run = record()
    run.begin()
    run.add_points("train/loss", range(1, 6))
    reader.watch(run.id)
    assert screen.curves == {"train/loss": [1, 2, 3, 4, 5]}
    assert screen.states == [RunState.RUNNING]
    run.add_points("train/loss", range(6, 8))
    run.add(EpochEnded(1, 7, {"validation/loss": 0.4}))
    qtbot.waitUntil(lambda: EpochEnded(1, 7, {"validation/loss": 0.4}) in screen.events)
    assert screen.curves == {"train/loss": [1, 2, 3, 4, 5, 6, 7]}
    assert len(screen.events) == 3


def test_a_silent_run_shows_what_its_supervisor_tells_and_no_poll_waits_for_that(
    reader: StoreReader, record: Record, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, may_answer = threading.Event(), threading.Event()

    def connect(*arguments: Any) -> Any:
        asked.set()
        may_answer.wait()
        return channel.connect(*arguments)

    ask, patience = status_question.ask, set()

    def noted(folder: Path, seconds: float) -> Any:
        patience.add(seconds)
        return ask(folder, seconds)

    monkeypatch.setattr(status_question, "ask", noted)
    monkeypatch.setattr(status_question, "connect", connect)
    monkeypatch.setattr(run_info, "SILENT_SECONDS", 0.0)
    screen = Screen(reader)
    run = record()
    run.begin()
    (run.folder / heartbeat.FILE_NAME).touch()
    paused = msgspec.structs.replace(run.store.status, state=RunState.PAUSED)
    inbox = Inbox()
    inbox.answer_status = lambda standstill: channel.StatusAnswer(
        msgspec.msgpack.encode(paused), "the disk is read-only", standstill, ()
    )
    with closing(channel.Server(run.folder, inbox.connected)):
        reader.watch(run.id)
        assert asked.wait(60.0)
        reader.poll()
        assert screen.states == [RunState.RUNNING], "it polls on while the question is open"
        may_answer.set()
        qtbot.waitUntil(lambda: screen.states[-1] is RunState.PAUSED)
    assert patience == {0.0}, "the thread of the window waits for no answer"
    assert not screen.infos[-1].is_recorded
    assert "the disk is read-only" in screen.infos[-1].status.troubles[run_info.SUPERVISOR]


def test_points_taken_away_replace_every_curve(reader: StoreReader, record: Record) -> None:
    screen = Screen(reader)
    run = record()
    run.begin()
    run.add_points("train/loss", range(1, 10))
    run.add_points("validation/loss", [9])
    reader.watch(run.id)
    run.store.rewind(5)
    run.add_points("train/loss", [6])
    reader.poll()
    assert screen.curves == {"train/loss": [1, 2, 3, 4, 5, 6], "validation/loss": []}


def test_a_run_that_is_over_is_followed_when_resumed(reader: StoreReader, record: Record) -> None:
    screen = Screen(reader)
    run = record()
    run.begin()
    run.add(RunEnded("stopped", "You stopped it."))
    reader.watch(run.id)
    assert screen.states == [RunState.STOPPED]
    assert reader.timer.interval() == OVER_MS
    run.begin(attempt=2)
    run.add_points("train/loss", [11])
    reader.poll()
    assert screen.states[-1] is RunState.RUNNING
    assert reader.timer.interval() == LIVE_MS
    assert screen.curves == {"train/loss": [11]}


def test_who_hears_that_a_run_is_over_has_heard_everything_else(
    reader: StoreReader, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Screen(reader)
    run = record()
    run.begin()
    reader.watch(run.id)
    read = RunReader.events_after

    def end_just_after(store: RunReader, seq: int, most: int) -> Any:
        found = read(store, seq, most)
        run.add(RunEnded("stopped", ""))
        return found

    run.add(EpochEnded(1, 10, {}))
    with monkeypatch.context() as patch:
        patch.setattr(RunReader, "events_after", end_just_after)
        reader.poll()
    assert RunState.STOPPED not in screen.states
    reader.poll()
    assert screen.states[-1] is RunState.STOPPED
    assert type(screen.events[-1]) is RunEnded


def test_a_flood_of_points_is_read_as_one_curve_of_blocks(
    reader: StoreReader, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.runs.store.store_follower.LONGEST_ADDITION", 3)
    screen = Screen(reader)
    run = record()
    run.begin()
    run.add_points("train/loss", [1])
    reader.watch(run.id)
    appended: list[str] = []
    reader.points.connect(lambda name, *_: appended.append(name))
    run.add_points("train/loss", range(2, 9))
    reader.poll()
    assert not appended
    assert screen.curves == {"train/loss": list(range(1, 9))}


def test_in_a_flood_every_series_has_its_turn_and_the_end_brings_all(
    reader: StoreReader, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.runs.store.store_follower.MOST_AT_ONCE", 10)
    monkeypatch.setattr("engine.runs.store.store_follower.SERIES_AT_ONCE", 2)
    screen = Screen(reader)
    run = record()
    run.begin()
    names = [f"rank/{number}/step_time" for number in range(5)]

    def more(first: int) -> None:
        for name in names:
            run.add_points(name, range(first, first + 5))

    def known() -> list[int]:
        reader.poll()
        return sorted(len(screen.curves[name]) for name in names)

    more(1)
    reader.watch(run.id)
    assert [len(screen.curves[name]) for name in names] == [5] * 5, "the first look shows all"
    more(6)
    assert known() == [5, 5, 5, 10, 10]
    more(11)
    assert known() == [5, 10, 10, 15, 15]
    assert known() == [10, 15, 15, 15, 15], "those that wait are still too many for one look"
    assert known() == [15] * 5
    more(16)
    run.add(RunEnded("finished", ""))
    assert known() == [20] * 5


def test_output_arrives_line_by_line_with_its_rank(reader: StoreReader, record: Record) -> None:
    screen = Screen(reader)
    run = record()
    run.begin()
    run.write_log(0, "first\nsec")
    run.write_log(1, "other\n")
    reader.watch(run.id)
    assert screen.log == [(0, "first"), (1, "other")]
    run.write_log(0, "ond\n")
    reader.poll()
    assert screen.log[2:] == [(0, "second")]


def test_a_damaged_store_is_said_once_in_a_sentence(reader: StoreReader, record: Record) -> None:
    screen = Screen(reader)
    run = record()
    run.store.close()
    (run.folder / "run.sqlite").write_bytes(b"this is no database" * 100)
    (run.folder / "run.sqlite-wal").unlink(missing_ok=True)
    reader.watch(run.id)
    reader.poll()
    assert len(screen.troubles) == 1
    assert "cannot be read" in screen.troubles[0]


def test_watching_another_run_forgets_the_first(reader: StoreReader, record: Record) -> None:
    first, second = record(), record()
    first.begin()
    second.begin()
    first.add_points("train/loss", [1, 2])
    reader.watch(first.id)
    screen = Screen(reader)
    reader.watch(second.id)
    first.add_points("train/loss", [3])
    reader.poll()
    assert screen.curves == {}


def test_output_stands_before_what_happened_later(reader: StoreReader, record: Record) -> None:
    run = record()
    run.begin()
    run.add(RunEnded("finished", ""))
    with RunReader(run.folder) as stored:
        times = [each.time for each in stored.events_after(0)]
    log = run.folder / "logs" / "rank0.log"
    log.parent.mkdir(exist_ok=True)
    log.write_text("hello\n")
    os.utime(log, (times[-1] - 1e-4, times[-1] - 1e-4))
    told: list[str] = []
    reader.events.connect(lambda new: told.extend(type(each.event).__name__ for each in new))
    reader.log_lines.connect(lambda _, lines: told.extend(lines))
    reader.watch(run.id)
    earlier = sum(time <= times[-1] - 1e-4 for time in times)
    assert told.index("hello") == earlier
    assert told[-1] == "RunEnded"


def test_long_curves_are_shortened_one_at_a_look(
    reader: StoreReader, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_follower, "MOST_SHOWN", 5)
    run = record()
    run.begin()
    for series in ("train/loss", "train/other"):
        run.add_points(series, range(1, 4))
    reader.watch(run.id)
    anew: list[str] = []
    reader.curve.connect(lambda name, *_: anew.append(name))
    for series in ("train/loss", "train/other"):
        run.add_points(series, range(4, 14))
    reader.poll()
    assert anew == ["train/loss"]
    run.add_points("train/other", [14])
    reader.poll()
    assert anew == ["train/loss", "train/other"]


def test_of_a_run_elsewhere_that_is_over_the_status_comes_after_its_points_too(
    reader: StoreReader, record: Record, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The points are fetched after it is known which series there are, thus after the status."""
    run = record()
    run.begin()
    run.add_points("validation/loss", range(1, 3))
    run.add(RunEnded(RunState.FINISHED, "All is done."))
    takers: list[Callable[[RunNews], None]] = []
    machines = reader._machines

    def follow(_: str, series: Sequence[str], take: Callable[[RunNews], None]) -> RemoteFollow:
        takers.append(take)
        return RemoteFollow(run.id, series, 1, take)

    monkeypatch.setattr(machines, "follow", follow)
    screen = Screen(reader)
    reader.watch(f"gpus:{run.id}")
    with closing(RunFollower(run.id)) as follower:
        news = follower.poll()
    takers[0](news._replace(curves=()))
    qtbot.waitUntil(lambda: screen.states == [RunState.FINISHED])
    takers[0](RunNews(curves=news.curves))
    qtbot.waitUntil(lambda: screen.states == [RunState.FINISHED, RunState.FINISHED])
    assert screen.curves == {"validation/loss": [1, 2]}
    assert {info.id for info in screen.infos} == {f"gpus:{run.id}"}
    listed = screen.infos[-1]._replace(notes=RunNotes(name="renamed"))
    machines.runs_listed.emit("gpus", [listed], [])
    assert screen.infos[-1].notes.name == "renamed"
