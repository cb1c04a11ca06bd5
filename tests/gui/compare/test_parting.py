"""Where two compared runs part: what is asked of the engine, and what the card shows of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.planning.requests import AskDivergence, AskRace, AskReplay
from engine.planning.results import Divergence, Doing, SettingDifference
from engine.runs.run_index import RunIndex
from gui.app import AppController
from gui.compare.parting_card import PartingCard
from tests.gui.conftest import window_of_module
from tests.support.device_states import cpu
from tests.support.recorded_runs import record_epochs

FOUND = Divergence(
    first="1",
    second="2",
    steps=40,
    equal=6,
    tolerance=1e-5,
    step=7,
    cause="layer",
    name="norm",
    curves="The runs are equal bit for bit up to step 6 of 40.",
    answer="Step 7 is the first. The output of norm (BatchNorm2d) differs.",
    settings=(SettingDifference("Dropout", "0.1", "0.5"), SettingDifference("numpy", "", "2.1")),
    recipe=("--- run 1: recipe", "+++ run 2: recipe", "@@ -12 +12 @@", "-eps=1e-5", "+eps=1e-3"),
)


@pytest.fixture(scope="module")
def opened(home: Path) -> Iterator[AppController]:
    with window_of_module(home, cpu()) as opened:
        for _ in range(3):
            record_epochs("finished", (0.5, 0.4))
        yield opened


@pytest.fixture
def asked(opened: AppController, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What is asked of the engine, which measures nothing."""
    found: list[object] = []
    monkeypatch.setattr(opened.planning, "ask", found.append)
    opened.rooms.runs.page.set_comparing(False)
    opened.window.show_page("runs")
    opened.rooms.runs.comparison.show_runs(RunIndex().runs())
    return found


def _compare(opened: AppController, *run_ids: str) -> PartingCard:
    opened.chosen.choose(run_ids)
    opened.rooms.runs.page.set_comparing(True)
    return opened.rooms.runs.comparison.parting


def test_the_answer_is_shown_beside_the_two_runs_it_is_about(
    opened: AppController, asked: list[object]
) -> None:
    card = _compare(opened, "2", "1")
    assert not card.isVisible()
    opened.rooms.runs.comparison.chips.part_button.click()
    request = AskDivergence("1", "2")
    assert asked == [request]
    opened.planning.begun.emit(request)
    opened.planning.news.emit(request, Doing("run 2: replaying 3 of 7 steps", 3, 7))
    assert (card.progress.value(), card.progress.maximum()) == (3, 7)
    assert card.stop.isVisible()
    opened.planning.begun.emit(AskDivergence("1", "3"))
    opened.planning.refused.emit(AskRace(entrants=()), "No.")
    opened.planning.found.emit(request, FOUND)
    opened.planning.ended.emit(request)
    assert card.answer.text() == FOUND.answer
    assert not card.progress.isVisible()
    assert card.lines.toPlainText().splitlines() == list(FOUND.recipe)
    assert all(text in card.causes.text() for text in ("Dropout", "0.1", "0.5", "none"))
    _compare(opened, "1", "3")
    assert not card.isVisible()
    _compare(opened, "1", "2")
    assert card.isVisible()
    card.steps[1].click()
    assert asked[1:] == [AskReplay("2", 7)]
    assert opened.window.page == "step"


def test_a_search_is_cancelled_refused_and_hidden(
    opened: AppController, asked: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    card = _compare(opened, "1", "2")
    stopped: list[object] = []
    monkeypatch.setattr(opened.planning, "stop", stopped.append)
    request = AskDivergence("1", "2")
    opened.rooms.parting.find()
    opened.planning.waits.emit(request)
    card.stop.click()
    assert stopped == [AskDivergence]
    opened.planning.ended.emit(request)
    assert not card.stop.isVisible()
    opened.rooms.parting.find()
    opened.planning.begun.emit(request)
    opened.planning.refused.emit(request, "Run 2 has recorded no step.")
    opened.planning.ended.emit(request)
    assert card.answer.text() == "Run 2 has recorded no step."
    card.close_button.click()
    assert not card.isVisible()


def test_only_two_runs_of_one_machine_are_compared(
    opened: AppController, asked: list[object]
) -> None:
    card = _compare(opened, "1", "2", "3")
    assert not opened.rooms.runs.comparison.chips.part_button.isEnabled()
    infos = RunIndex().runs()
    opened.rooms.runs.comparison.show_runs([*infos, infos[0]._replace(id="gpus:3")])
    _compare(opened, "1", "gpus:3")
    opened.rooms.runs.comparison.chips.part_button.click()
    assert asked == []
    assert "gpus:3" in card.answer.text()
    assert card.isVisible()
