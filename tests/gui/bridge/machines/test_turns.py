"""A machine that does not wait: the window takes one thing at a time, and nothing queues."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from engine.remote import session
from engine.runs.run_follower import Output, RunNews
from engine.runs.run_info import RunInfo
from engine.runs.store.store_follower import CurveUpdate
from engine.runs.store.store_reader import StoredEvent
from engine.system import machines as machine_list
from engine.system.machines import RemoteMachine
from gui.bridge.machines import machines as machines_module
from gui.bridge.machines import news_parts, turns
from gui.bridge.machines.machines import Machines, told_runs
from gui.bridge.machines.news_parts import parts_of
from gui.bridge.machines.turns import Turns
from tests.support.flooding_machine import RUN, Flood, run_info

pytestmark = pytest.mark.usefixtures("traindeck_home")

WAIT_MS = 60_000
THREADS = 8


@pytest.fixture
def connect(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], tuple[Machines, Flood]]]:
    """Connects to a machine that floods in this way."""
    found: list[Machines] = []

    def begin(how: str) -> tuple[Machines, Flood]:
        floods: list[Flood] = []

        def start(command: Sequence[str], **_: Any) -> Flood:
            floods.append(Flood(how, command))
            return floods[-1]

        monkeypatch.setattr(session.children, "start", start)
        machine_list.add(RemoteMachine(name="flood", destination="flood"))
        machines = Machines()
        found.append(machines)
        machines.begin()
        machines.connect_to("flood", ["NONCE"])
        qtbot.waitUntil(lambda: machines.is_connected("flood"), timeout=WAIT_MS)
        return machines, floods[0]

    monkeypatch.setattr(turns, "REST", 0.0)
    yield begin
    for each in found:
        each.shut_down()


def test_of_a_list_that_floods_one_message_is_under_way(
    connect: Callable[[str], tuple[Machines, Flood]], qtbot: QtBot
) -> None:
    machines, flood = connect("runs")
    listed: list[tuple[int, list[RunInfo]]] = []
    # The devices and a greeting come, too: what is counted is what is sent after the first list.
    machines.runs_listed.connect(lambda _, runs, __: listed.append((flood.server.sent, runs)))
    qtbot.waitUntil(lambda: len(listed) >= 10, timeout=WAIT_MS)
    sent = [count for count, _ in listed]
    assert max(b - a for a, b in itertools.pairwise(sent)) <= 2  # a ping's answer
    updated = [runs[0].status.updated for _, runs in listed]
    assert updated == sorted(set(updated))  # each is newer, none comes twice
    assert all(len(runs) == 299 for _, runs in listed)


@pytest.mark.parametrize("how", ["many-runs", "unreadable"])
def test_a_list_of_too_many_runs_ends_the_connection_in_words(
    connect: Callable[[str], tuple[Machines, Flood]], qtbot: QtBot, how: str
) -> None:
    machines, _ = connect(how)
    qtbot.waitUntil(lambda: machines.status("flood").state == "failed", timeout=WAIT_MS)
    status = machines.status("flood")
    assert "flood" in status.sentence
    assert "40,000" in status.sentence
    assert machines.runs() == []


def test_lines_that_come_one_by_one_are_shown_together_and_a_few_in_each_turn(
    connect: Callable[[str], tuple[Machines, Flood]], qtbot: QtBot
) -> None:
    machines, _ = connect("lines")
    shown: list[int] = []

    def take(news: RunNews) -> None:
        shown.extend(len(part.lines) for part in news.story if isinstance(part, Output))

    assert machines.follow(f"flood:{RUN}", (), take) is not None
    qtbot.waitUntil(lambda: sum(shown) >= 5000, timeout=WAIT_MS)
    assert set(shown) == {news_parts.MOST_LINES}  # 5,000 parts of one line came


def test_the_window_takes_one_function_at_a_time(qtbot: QtBot) -> None:
    given = Turns()
    taken: list[int] = []
    before: list[int] = []
    given._given.connect(lambda _: before.append(len(taken)), Qt.ConnectionType.DirectConnection)
    threads = [
        threading.Thread(target=given.give, args=(partial(taken.append, n),))
        for n in range(THREADS)
    ]
    for each in threads:
        each.start()
    qtbot.waitUntil(lambda: not any(each.is_alive() for each in threads), timeout=WAIT_MS)
    assert sorted(taken) == list(range(THREADS))
    # Each was given when those before it were taken; by now it may be taken itself.
    assert all(count >= number for number, count in enumerate(before))


def test_who_waits_for_a_turn_goes_on_when_the_window_ends(qtbot: QtBot) -> None:
    given = Turns()
    taken: list[int] = []
    threads = [
        threading.Thread(target=given.give, args=(partial(taken.append, n),)) for n in range(3)
    ]
    for each in threads:
        each.start()
    given.end()  # no event loop runs here
    for each in threads:
        each.join(WAIT_MS / 1000)
    assert not any(each.is_alive() for each in threads)
    qtbot.wait(0)
    assert taken == []


def test_news_of_a_run_keep_their_order_in_parts() -> None:
    points: Any = None
    curves = [CurveUpdate(f"{n}", points, replaces=False) for n in range(3)]
    events: list[Any] = [StoredEvent(n, 0.0, None) for n in range(2 * news_parts.MOST_EVENTS + 1)]
    output = Output(1, [str(n) for n in range(news_parts.MOST_LINES + 1)], has_gaps=True)
    news = RunNews(curves, [events, output], run_info(1), ["a"], "", b"c")
    parts = list(parts_of(news))
    assert [each for part in parts for each in part.curves] == curves
    story = [each for part in parts for each in part.story]
    assert [e for each in story if not isinstance(each, Output) for e in each] == events
    lines = [each for each in story if isinstance(each, Output)]
    assert [line for each in lines for line in each.lines] == output.lines
    assert [each.has_gaps for each in lines] == [True, False]
    assert story.index(lines[0]) == 3
    assert parts[0].series == ["a"]
    assert [part.info for part in parts if part.info] == [parts[-1].info]
    assert parts[-1].info == news.info
    assert list(parts_of(RunNews(trouble="It is away."))) == [RunNews(trouble="It is away.")]


def test_of_a_long_list_the_newest_are_shown_and_none_counts_as_deleted(
    connect: Callable[[str], tuple[Machines, Flood]], qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machines_module, "MOST_LISTED", 2)
    machines, _ = connect("calm")
    qtbot.waitUntil(lambda: bool(machines.runs()), timeout=WAIT_MS)
    with qtbot.waitSignal(machines.failed) as told:
        machines._take_runs(
            "flood", told_runs("flood", [run_info(3), run_info(2)], [], ["3", "2", "1"])
        )
    assert [each.id for each in machines.runs()] == ["flood:3", "flood:2"]
    assert "flood has 3 runs" in told.args[0]
    assert machines.has_run("flood:1")
