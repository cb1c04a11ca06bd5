"""From a point of a plot to the page Step and back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from engine import client
from engine.planning.requests import AskRace, AskReplay
from engine.planning.results import Doing
from gui.app import AppController
from gui.step.controller import MOST_ANSWERS
from tests.gui.conftest import window_of_module
from tests.gui.stored_points import stored_points
from tests.support.device_states import cpu
from tests.support.recorded_runs import RecordedRun
from tests.support.replayed_step import REPLAY


@pytest.fixture(scope="module")
def opened(home: Path) -> Iterator[AppController]:
    """The window of all tests here."""
    with window_of_module(home, cpu()) as app:
        yield app


@pytest.fixture
def app(opened: AppController) -> AppController:
    return opened


@pytest.fixture
def asked(app: AppController, monkeypatch: pytest.MonkeyPatch) -> list[AskReplay]:
    """What is asked of the engine, which measures nothing."""
    found: list[AskReplay] = []
    monkeypatch.setattr(app.planning, "ask", found.append)
    run = RecordedRun()
    run.begin()
    run.add_points("train/loss", range(1, 40))
    run.store.close()
    app.rooms.step.show_info(client.get_run(run.id))
    app.window.show_page("run")
    return found


def test_the_point_of_a_plot_opens_the_page(app: AppController, asked: list[AskReplay]) -> None:
    plots = app.rooms.run.plots
    plots.add_points("train/loss", stored_points(np.arange(1.0, 101.0), np.arange(100.0)))
    plots.choose_step(plots.plot("Loss"), 37.2)
    (request,) = asked
    assert request.step == 37
    assert app.window.page == "step"
    assert app.window.strip.pages["run"].isChecked()
    app.planning.begun.emit(request)
    app.planning.found.emit(request, REPLAY)
    app.planning.ended.emit(request)
    page = app.rooms.step.page
    assert page.answer.isVisible()
    page.back.click()
    assert app.window.page == "run"


def test_the_menu_asks_for_the_suspicious_step(app: AppController, asked: list[AskReplay]) -> None:
    app.window.replay_step.trigger()
    assert [request.step for request in asked] == [0]


def test_answers_to_others_are_not_shown(app: AppController, asked: list[AskReplay]) -> None:
    app.rooms.step.open_step(5)
    (request,) = asked
    page = app.rooms.step.page
    for other in (AskReplay("999", 3), AskRace(entrants=())):
        app.planning.begun.emit(other)
        app.planning.news.emit(other, Doing("replaying 1 of 2 steps", 1, 2))
        app.planning.refused.emit(other, "No.")
        app.planning.ended.emit(other)
    app.planning.begun.emit(request)
    assert page.progress.isVisible()
    app.planning.refused.emit(request, "It has no such step.")
    app.planning.ended.emit(request)
    assert not page.progress.isVisible()
    assert page.message.text() == "It has no such step."


def test_answers_are_kept_by_run_and_step(app: AppController, asked: list[AskReplay]) -> None:
    room, page = app.rooms.step, app.rooms.step.page
    room.open_step(5)
    (first,) = asked
    answers = {step: replace(REPLAY, step=step) for step in (5, 6)}
    app.planning.begun.emit(first)
    other = RecordedRun()
    other.begin()
    other.store.close()
    info = client.get_run(other.id)
    room.show_info(info._replace(status=replace(info.status, step=39)))
    assert page.step.value() == 39
    assert not page.is_running
    assert page.shown_step == 0
    app.planning.found.emit(first, answers[5])
    app.planning.ended.emit(first)
    assert page.shown_step == 0
    room.show_info(client.get_run(first.run))
    assert page.shown_step == page.step.value() == 5

    second = replace(first, step=6)
    app.planning.begun.emit(second)
    app.planning.found.emit(second, answers[6])
    app.planning.ended.emit(second)
    room.open_step(5)
    assert page.shown_step == 5
    assert asked == [first]
    page.replay.click()
    assert asked == [first, first]

    app.planning.begun.emit(first)
    room.show_info(client.get_run(other.id))
    room.show_info(client.get_run(first.run))
    assert page.is_running
    app.planning.refused.emit(first, "No.")
    app.planning.ended.emit(first)
    assert page.answer.isVisible()


def test_the_oldest_answers_are_forgotten(app: AppController, asked: list[AskReplay]) -> None:
    app.rooms.step.open_step(1)
    (request,) = asked
    for step in range(1, MOST_ANSWERS + 2):
        app.planning.found.emit(request, replace(REPLAY, step=step))
    app.rooms.step.open_step(2)
    assert len(asked) == 1
    app.rooms.step.open_step(1)
    assert len(asked) == 2
