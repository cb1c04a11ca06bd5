"""Which templates the window starts, and when."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from pytestqt.qtbot import QtBot

from engine.templates import client
from engine.templates.kinds import KINDS, TemplateKind
from gui.bridge import template_keeper
from gui.bridge.background import Background
from gui.bridge.template_keeper import TemplateKeeper
from tests.support.sentences import sentence
from tests.support.template_double import TemplateDouble

TORCH, KERAS, TENSORFLOW = KINDS["torch"], KINDS["keras-torch"], KINDS["tensorflow"]


@pytest.fixture
def templates(monkeypatch: pytest.MonkeyPatch) -> TemplateDouble:
    monkeypatch.setattr(template_keeper, "DELAY_MS", 20)
    return TemplateDouble(monkeypatch)


@pytest.fixture
def background(qtbot: QtBot) -> Iterator[Background]:
    made = Background()
    yield made
    made.finish()


@pytest.fixture
def keeper(templates: TemplateDouble, background: Background) -> Iterator[TemplateKeeper]:
    made = TemplateKeeper(background)
    yield made
    made.stop()


@pytest.fixture
def told(keeper: TemplateKeeper) -> list[bool]:
    """What the keeper has told of the switch."""
    seen: list[bool] = []
    keeper.switched.connect(seen.append)
    return seen


def begin(keeper: TemplateKeeper, kind: TemplateKind | None = TORCH) -> None:
    keeper.want(kind)
    keeper.begin()


def rest(keeper: TemplateKeeper, qtbot: QtBot) -> None:
    """Wait until no start is due or under way."""
    qtbot.waitUntil(lambda: not (keeper._timer.isActive() or keeper._is_starting))


def test_it_starts_what_the_form_needs_once_it_may(
    keeper: TemplateKeeper, templates: TemplateDouble, qtbot: QtBot
) -> None:
    keeper.want(TENSORFLOW)
    keeper.return_to_form()
    rest(keeper, qtbot)
    assert templates.starts == []
    begin(keeper)
    qtbot.waitUntil(lambda: "torch" in templates.running)
    assert templates.starts == ["torch"]


def test_who_goes_through_the_strategies_starts_one_template(
    keeper: TemplateKeeper, templates: TemplateDouble, qtbot: QtBot
) -> None:
    keeper.begin()
    for kind in (TORCH, KERAS, TENSORFLOW, KERAS):
        keeper.want(kind)
    qtbot.waitUntil(lambda: "keras-torch" in templates.running)
    keeper.want(TENSORFLOW)
    qtbot.waitUntil(lambda: "tensorflow" in templates.running)
    assert templates.starts == ["keras-torch", "tensorflow"]


def test_it_starts_one_at_a_time(
    keeper: TemplateKeeper, templates: TemplateDouble, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    at_work, most, go_on = set[str](), list[int](), threading.Event()

    def start(kind: TemplateKind) -> None:
        at_work.add(kind.name)
        most.append(len(at_work))
        assert go_on.wait(60)
        at_work.remove(kind.name)
        templates.start(kind)

    monkeypatch.setattr(client, "start", start)
    begin(keeper)
    qtbot.waitUntil(lambda: at_work == {"torch"})
    keeper.want(TENSORFLOW)
    qtbot.waitUntil(lambda: not keeper._timer.isActive())
    go_on.set()
    qtbot.waitUntil(lambda: "tensorflow" in templates.running)
    assert max(most) == 1


def test_a_run_that_starts_cold_needs_none(
    keeper: TemplateKeeper, templates: TemplateDouble, qtbot: QtBot
) -> None:
    begin(keeper, None)
    rest(keeper, qtbot)
    keeper.want(TORCH)
    keeper.want(None)
    rest(keeper, qtbot)
    assert templates.starts == []


def test_the_switch_works_in_both_directions(
    keeper: TemplateKeeper, templates: TemplateDouble, told: list[bool], qtbot: QtBot
) -> None:
    templates.is_on = False
    begin(keeper)
    rest(keeper, qtbot)
    qtbot.waitUntil(lambda: told[-1:] == [False])
    assert templates.starts == []
    templates.is_on = True  # as the command line does
    keeper.return_to_form()
    qtbot.waitUntil(lambda: bool(templates.running) and told[-1])
    keeper.switch(False)
    qtbot.waitUntil(lambda: not told[-1])
    assert (templates.is_on, templates.running) == (False, {})
    keeper.switch(True)
    qtbot.waitUntil(lambda: bool(templates.running) and told[-1])


def test_a_switch_that_cannot_be_changed_is_told_and_stays(
    keeper: TemplateKeeper,
    templates: TemplateDouble,
    told: list[bool],
    monkeypatch: pytest.MonkeyPatch,
    qtbot: QtBot,
) -> None:
    def switch(*, on: bool) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(client, "switch", switch)
    with qtbot.waitSignal(keeper.failed) as failed:
        keeper.switch(False)
    assert failed.args == [sentence("this-could-not-be-switched-disk")]
    qtbot.waitUntil(lambda: told[-1:] == [True])


def test_a_template_that_cannot_be_started_is_tried_again_at_the_form(
    keeper: TemplateKeeper, templates: TemplateDouble, qtbot: QtBot
) -> None:
    templates.refusal = "this system does not support it"
    begin(keeper)
    qtbot.waitUntil(lambda: templates.starts == ["torch"])
    rest(keeper, qtbot)
    assert templates.starts == ["torch"]
    templates.refusal = ""
    keeper.return_to_form()
    qtbot.waitUntil(lambda: "torch" in templates.running)
