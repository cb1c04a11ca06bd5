"""Which templates the window starts, when, and how often it asks them."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from pytestqt.qtbot import QtBot

from engine.templates import client
from engine.templates.kinds import KINDS, TemplateKind
from engine.templates.protocol import TemplateState
from gui.bridge import template_keeper
from gui.bridge.background import Background
from gui.bridge.template_keeper import TemplateKeeper, TemplateStatus
from tests.support.sentences import sentence
from tests.support.template_double import TemplateDouble, template

TORCH, KERAS, TENSORFLOW = KINDS["torch"], KINDS["keras-torch"], KINDS["tensorflow"]


@pytest.fixture
def templates(monkeypatch: pytest.MonkeyPatch) -> TemplateDouble:
    monkeypatch.setattr(template_keeper, "DELAY_MS", 20)
    monkeypatch.setattr(template_keeper, "ASK_MS", 20)
    monkeypatch.setattr(template_keeper, "ASK_SOON_MS", 10)
    return TemplateDouble(monkeypatch)


@pytest.fixture
def background(qtbot: QtBot) -> Iterator[Background]:
    made = Background()
    yield made
    made.finish()


@pytest.fixture
def keeper(templates: TemplateDouble, background: Background) -> Iterator[TemplateKeeper]:
    made = TemplateKeeper(background)
    made.set_visible(True)
    yield made
    made.stop()


@pytest.fixture
def shown(keeper: TemplateKeeper) -> list[TemplateStatus]:
    seen: list[TemplateStatus] = []
    keeper.status.connect(seen.append)
    return seen


def begin(keeper: TemplateKeeper, kind: TemplateKind | None = TORCH) -> None:
    keeper.want(kind)
    keeper.begin()


def rest(keeper: TemplateKeeper, qtbot: QtBot) -> None:
    """Wait until no start is due or under way; it may be asking, as it does all the time."""
    qtbot.waitUntil(lambda: not (keeper._start_timer.isActive() or keeper._is_starting))


def test_it_starts_what_the_form_needs_once_it_may(
    keeper: TemplateKeeper, templates: TemplateDouble, shown: list[TemplateStatus], qtbot: QtBot
) -> None:
    keeper.want(TENSORFLOW)
    keeper.return_to_form()
    keeper.set_visible(True)
    rest(keeper, qtbot)
    assert templates.starts == []
    begin(keeper)
    qtbot.waitUntil(lambda: bool(shown and shown[-1].states))
    assert templates.starts == [("torch", True)]
    assert shown[-1] == TemplateStatus(TORCH, True, (template(),))


def test_who_goes_through_the_strategies_starts_one_template(
    keeper: TemplateKeeper, templates: TemplateDouble, qtbot: QtBot
) -> None:
    keeper.begin()
    for kind in (TORCH, KERAS, TENSORFLOW, KERAS):
        keeper.want(kind)
    qtbot.waitUntil(lambda: "keras-torch" in templates.running)
    keeper.want(TENSORFLOW)
    qtbot.waitUntil(lambda: "tensorflow" in templates.running)
    assert templates.starts == [("keras-torch", True), ("tensorflow", True)]


def test_it_starts_one_at_a_time(
    keeper: TemplateKeeper,
    templates: TemplateDouble,
    monkeypatch: pytest.MonkeyPatch,
    qtbot: QtBot,
) -> None:
    at_work, most, go_on = set[str](), list[int](), threading.Event()

    def start(kind: TemplateKind, *, at_low_priority: bool) -> None:
        at_work.add(kind.name)
        most.append(len(at_work))
        assert go_on.wait(60)
        at_work.remove(kind.name)
        templates.start(kind, at_low_priority=at_low_priority)

    monkeypatch.setattr(client, "start", start)
    begin(keeper)
    qtbot.waitUntil(lambda: at_work == {"torch"})
    keeper.want(TENSORFLOW)
    qtbot.waitUntil(lambda: not keeper._start_timer.isActive())
    go_on.set()
    qtbot.waitUntil(lambda: "tensorflow" in templates.running)
    assert max(most) == 1


def test_a_run_that_starts_cold_needs_none(
    keeper: TemplateKeeper, templates: TemplateDouble, shown: list[TemplateStatus], qtbot: QtBot
) -> None:
    begin(keeper, None)
    rest(keeper, qtbot)
    keeper.want(TORCH)
    keeper.want(None)
    rest(keeper, qtbot)
    assert templates.starts == []
    assert shown[-1].kind is None


def test_the_switch_works_in_both_directions_here_and_elsewhere(
    keeper: TemplateKeeper, templates: TemplateDouble, shown: list[TemplateStatus], qtbot: QtBot
) -> None:
    templates.is_on = False
    begin(keeper)
    qtbot.waitUntil(lambda: bool(shown) and not shown[-1].is_on)
    rest(keeper, qtbot)
    assert templates.starts == []
    templates.is_on = True  # as the command line does
    qtbot.waitUntil(lambda: bool(shown[-1].states))
    keeper.switch(False)
    qtbot.waitUntil(lambda: not shown[-1].is_on)
    assert shown[-1].states == ()
    assert (templates.is_on, templates.running) == (False, {})
    keeper.switch(True)
    qtbot.waitUntil(lambda: bool(shown[-1].states))
    assert shown[-1].is_on


def test_a_switch_that_cannot_be_changed_is_told_and_stays(
    keeper: TemplateKeeper,
    templates: TemplateDouble,
    shown: list[TemplateStatus],
    monkeypatch: pytest.MonkeyPatch,
    qtbot: QtBot,
) -> None:
    def switch(*, on: bool) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(client, "switch", switch)
    with qtbot.waitSignal(keeper.failed) as failed:
        keeper.switch(False)
    assert failed.args == [sentence("this-could-not-be-switched-disk")]
    assert shown[-1].is_on


def test_a_template_that_cannot_be_started_is_told_once(
    keeper: TemplateKeeper, templates: TemplateDouble, shown: list[TemplateStatus], qtbot: QtBot
) -> None:
    templates.refusal = "this system does not support it"
    begin(keeper)
    qtbot.waitUntil(lambda: bool(shown) and shown[-1].problem == templates.refusal)
    count = len(shown)
    qtbot.waitUntil(lambda: len(shown) > count + 2)
    assert templates.starts == [("torch", True)]
    assert shown[-1].problem == templates.refusal
    templates.refusal = ""
    keeper.return_to_form()
    qtbot.waitUntil(lambda: shown[-1] == TemplateStatus(TORCH, True, (template(),)))


def test_one_that_ended_is_started_when_the_user_is_back_at_the_form(
    keeper: TemplateKeeper, templates: TemplateDouble, shown: list[TemplateStatus], qtbot: QtBot
) -> None:
    begin(keeper)
    qtbot.waitUntil(lambda: bool(shown and shown[-1].states))
    keeper.return_to_form()
    rest(keeper, qtbot)
    assert len(templates.starts) == 1
    templates.running.clear()
    qtbot.waitUntil(lambda: not shown[-1].states)
    rest(keeper, qtbot)
    assert len(templates.starts) == 1, "it was idle for a long time, as this window is"
    keeper.return_to_form()
    qtbot.waitUntil(lambda: bool(shown[-1].states))
    assert len(templates.starts) == 2


def test_nobody_is_asked_while_the_window_is_not_visible(
    keeper: TemplateKeeper,
    templates: TemplateDouble,
    monkeypatch: pytest.MonkeyPatch,
    qtbot: QtBot,
) -> None:
    asked: list[bool] = []

    def states() -> list[TemplateState]:
        asked.append(True)
        return templates.states()

    monkeypatch.setattr(client, "states", states)
    begin(keeper)
    qtbot.waitUntil(lambda: len(asked) > 2)
    keeper.set_visible(False)
    # With a question under way or due, one of them would always be true.
    qtbot.waitUntil(lambda: not (keeper._is_asking or keeper._ask_timer.isActive()))
    count = len(asked)
    keeper.set_visible(False)
    assert not keeper._is_asking
    assert len(asked) == count
    keeper.set_visible(True)
    qtbot.waitUntil(lambda: len(asked) > count + 1)
