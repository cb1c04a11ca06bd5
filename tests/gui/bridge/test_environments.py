"""The thread that makes an environment on another machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from engine.environments.registry import Environment
from engine.interface.encoding import Method
from engine.interface.engine import Engine
from engine.interface.failures import Refusal, error_of
from engine.interface.values import CreationPart, NoAnswer, NotConnected
from engine.remote.connection import LinkState, LinkStatus
from engine.remote.remote_engine import remote_engine
from engine.system.cancelled import Cancelled
from gui.bridge.environments import EnvironmentMaker
from tests.support.sentences import sentence

MADE = Environment("mine", "/there/bin/python")


class Link:
    """Machines whose engine answers as the test says."""

    def __init__(self, outcome: Environment | Exception) -> None:
        self.outcome = outcome
        self.asked: list[dict[str, Any]] = []

    def engine(self, name: str) -> Engine:
        return remote_engine(name, self._call)

    def status(self, name: str) -> LinkStatus:
        return LinkStatus(LinkState.WAITING, f"There is no SSH server on {name}.")

    def _call(self, method: Method, arguments: Mapping[str, Any]) -> Environment:
        assert method.name == "make_environment"
        self.asked.append({name: arguments[name] for name in method.values if name in arguments})
        for output in ("a" * 70_000, "the end"):
            arguments["tell"](CreationPart("Installing", 7, output))
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
    asked = {"name": "mine", "requirements": ["torch"], "default_for": "torch"}
    assert link.asked == [asked]
    assert maker.log().endswith("aathe end")
    assert len(maker.log()) == 64 * 2**10
    assert not maker.is_making


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            NoAnswer(
                "gpus: The Traindeck there (0.9) cannot do this (make_environment): update it."
            ),
            sentence("gpus-traindeck-there-cannot-do"),
        ),
        (
            error_of(Refusal("It is there already.", "CannotChange"), "gpus", {}),
            "gpus: It is there already.",
        ),
        (
            NotConnected("gpus: The connection broke before the answer came."),
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
    maker = making(Link(Cancelled("It was cancelled.")))
    with qtbot.waitSignal(maker.cancelled):
        maker.start("mine", ["torch"], machine="gpus")
    assert not maker.is_making
