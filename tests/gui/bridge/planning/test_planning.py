"""The process that measures before a run: its answers, its end, and what waits for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from engine.interface import local_engine
from engine.planning import measuring_process
from engine.planning.measuring_process import MeasuringProcess
from engine.planning.requests import AskMemory, AskPreflight, AskRace, Refusal, Request, encode_line
from engine.planning.results import Doing, MemoryEstimate, Race, Raced
from gui.bridge.planning.planning import Planning
from tests.gui.conftest import SPEC
from tests.support.planning_program import ENTRY, program
from tests.support.sentences import sentence

pytestmark = pytest.mark.usefixtures("processes")

RACE = AskRace(entrants=(SPEC,), steps=3)
MEMORY = AskMemory(SPEC)


class Heard:
    """What a Planning has told, in order."""

    def __init__(self, planning: Planning) -> None:
        self.said: list[tuple[str, object]] = []
        self.results: list[object] = []
        planning.begun.connect(lambda request: self.said.append(("begun", request)))
        planning.ended.connect(lambda request: self.said.append(("ended", request)))
        planning.refused.connect(lambda _, text: self.said.append(("refused", text)))
        planning.news.connect(lambda _, news: self.results.append(news))
        planning.found.connect(lambda _, result: self.results.append(result))


@pytest.fixture
def planning(qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Planning]:
    monkeypatch.setattr(measuring_process, "ARGUMENTS", program(tmp_path))
    made = Planning()
    yield made
    made.shut_down()


def test_news_and_the_result_arrive_and_then_the_end(planning: Planning, qtbot: QtBot) -> None:
    heard = Heard(planning)
    with qtbot.waitSignal(planning.ended, timeout=60_000):
        planning.ask(RACE)
        assert planning.measured == RACE
    assert [type(each) for each in heard.results] == [Doing, Raced, Race]
    assert heard.results[-1] == Race(entries=(ENTRY,), steps=3)
    assert heard.said == [("begun", RACE), ("ended", RACE)]
    assert planning.measured is None


def test_a_stop_ends_it_with_what_it_has_found(planning: Planning, qtbot: QtBot) -> None:
    heard = Heard(planning)
    with qtbot.waitSignal(planning.news, timeout=60_000):
        planning.ask(AskRace(entrants=(SPEC,), steps=1000))  # the program waits for its end
    with qtbot.waitSignal(planning.ended, timeout=60_000):
        planning.stop(AskRace)
    assert isinstance(heard.results[-1], Race)
    assert not [each for each in heard.said if each[0] == "refused"]


def test_a_newer_request_takes_the_place_of_an_older_one(planning: Planning, qtbot: QtBot) -> None:
    older = AskRace(entrants=(SPEC,), steps=1000)
    with qtbot.waitSignal(planning.news, timeout=60_000):
        planning.ask(older)
    heard = Heard(planning)
    planning.ask(RACE)
    assert heard.said == [("ended", older)]
    assert planning.is_asked(AskRace)
    with qtbot.waitSignal(planning.found, timeout=60_000) as found:
        pass
    assert found.args[0] == RACE


def test_another_request_waits_and_can_be_stopped(planning: Planning, qtbot: QtBot) -> None:
    heard = Heard(planning)
    planning.ask(RACE)
    planning.ask(MEMORY)
    planning.ask(AskPreflight(SPEC))
    planning.stop(AskPreflight)
    assert not planning.is_asked(AskPreflight)
    with qtbot.waitSignal(
        planning.ended, timeout=60_000, check_params_cb=lambda request: request == MEMORY
    ):
        pass
    kinds = [(word, type(request)) for word, request in heard.said]
    assert kinds == [
        ("begun", AskRace),
        ("ended", AskPreflight),
        ("ended", AskRace),
        ("begun", AskMemory),
        ("ended", AskMemory),
    ]
    assert isinstance(heard.results[-1], MemoryEstimate)


def test_a_refusal_is_told_in_its_words(planning: Planning, qtbot: QtBot) -> None:
    with qtbot.waitSignal(planning.refused, timeout=60_000) as refused:
        planning.ask(AskRace(entrants=()))
    assert refused.args[1] == "There is nothing to race."


def test_a_crash_is_a_sentence_with_the_end_of_its_log(
    planning: Planning, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    crashes = ("-c", "import sys; sys.exit('The disk is on fire.')")
    monkeypatch.setattr(measuring_process, "ARGUMENTS", crashes)
    heard = Heard(planning)
    with qtbot.waitSignal(planning.ended, timeout=60_000):
        planning.ask(RACE)
    assert heard.said[1] == ("refused", sentence("process-that-measures-has-ended-without"))


def test_a_line_of_a_library_is_no_answer(
    planning: Planning, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = encode_line(Refusal("No.")).decode()
    prints = ("-c", f"print('hello'); print({refused!r}, end='')")
    monkeypatch.setattr(measuring_process, "ARGUMENTS", prints)
    with qtbot.waitSignal(planning.refused, timeout=60_000) as told:
        planning.ask(RACE)
    assert told.args[1] == "No."


def test_the_process_ends_with_the_window(
    planning: Planning, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[MeasuringProcess] = []

    def start(request: Request) -> MeasuringProcess:
        started.append(MeasuringProcess(request))
        return started[-1]

    monkeypatch.setattr(local_engine, "MeasuringProcess", start)
    with qtbot.waitSignal(planning.news, timeout=60_000):
        planning.ask(AskRace(entrants=(SPEC,), steps=1000))
    planning.shut_down()
    assert started[0].wait(60.0) == 0
    planning.ask(RACE)
    assert not planning.is_asked(AskRace)
