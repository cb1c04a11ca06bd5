"""The thread that makes an environment on another machine."""

from __future__ import annotations

from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from engine.environments.registry import Environment
from engine.remote.connection import LinkState, LinkStatus
from engine.remote.machines import RemoteMachine
from engine.remote.requests import CreationPart, MakeEnvironment
from engine.remote.run_rows import encode
from engine.remote.session import CallCancelled, NotConnected, RefusedThere
from gui.bridge.environments import EnvironmentMaker
from tests.support.sentences import sentence

MADE = Environment("mine", "/there/bin/python")


class Link:
    """A connection that answers as the test says, and the machines that have it."""

    def __init__(self, outcome: Environment | Exception) -> None:
        self.machine = RemoteMachine(name="gpus", destination="me@gpus")
        self.status = LinkStatus(LinkState.WAITING, "There is no SSH server on gpus.")
        self.outcome = outcome
        self.asked: list[MakeEnvironment] = []

    def connection(self, _: str) -> Link:
        return self

    def call(self, request: MakeEnvironment, _: float, *, on_part: Any, **__: Any) -> Environment:
        self.asked.append(request)
        for output in ("a" * 70_000, "the end"):
            on_part(encode(CreationPart("Installing", 7, output)))
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


def making(link: Link) -> EnvironmentMaker:
    return EnvironmentMaker(link)  # type: ignore[arg-type]  # a double


def test_what_is_made_there_is_told_with_the_end_of_the_output(qtbot: QtBot) -> None:
    link = Link(MADE)
    maker = making(link)
    with qtbot.waitSignal(maker.made) as made:
        maker.start("mine", ["torch"], "torch", "gpus")
    assert made.args == [MADE]
    assert link.asked == [MakeEnvironment("mine", ["torch"], "torch")]
    assert maker.log().endswith("aathe end")
    assert len(maker.log()) == 64 * 2**10
    assert not maker.is_making


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            RefusedThere("The Traindeck there (0.9) cannot do this (make_environment): update it."),
            sentence("gpus-traindeck-there-cannot-do"),
        ),
        (
            NotConnected("The connection broke before the answer came."),
            sentence("no-connection-so-unready-environment-is-deleted"),
        ),
    ],
)
def test_why_nothing_is_made_there_is_a_sentence(error: Exception, said: str, qtbot: QtBot) -> None:
    maker = making(Link(error))
    with qtbot.waitSignal(maker.failed) as failed:
        maker.start("mine", ["torch"], machine="gpus")
    assert failed.args == [said]
    assert not maker.is_making


def test_a_creation_there_that_is_cancelled_is_told(qtbot: QtBot) -> None:
    maker = making(Link(CallCancelled("It was cancelled.")))
    with qtbot.waitSignal(maker.cancelled):
        maker.start("mine", ["torch"], machine="gpus")
    assert not maker.is_making
