"""The Pythons of another machine: who is asked when, and what is known meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from PySide6.QtCore import QObject, Signal

from engine.environments.registry import Environment
from engine.interface.encoding import Method
from engine.interface.engine import Engine
from engine.interface.values import NoAnswer
from engine.remote.connection import LinkState, LinkStatus
from engine.remote.remote_engine import remote_engine
from engine.spec import catalog
from engine.spec.validation import Problem
from gui.bridge.machines.environments_there import EnvironmentsThere
from tests.support.recorded_runs import SPEC

TORCH = Environment("torch", "/envs/torch/bin/python", default_for=("torch",))
RECIPE = catalog.recipe(SPEC.recipe)
CONNECTED, WAITING = LinkStatus(LinkState.CONNECTED), LinkStatus(LinkState.WAITING)


class Link(QObject):
    """Machines that are connected or not, and a background whose work is carried out by hand."""

    status_changed = Signal(str, object)

    def __init__(self) -> None:
        super().__init__()
        self.machines = self
        self.state = CONNECTED
        self.answer: list[Environment] | Exception = [TORCH]
        self.found: list[Problem] = []
        self.work: list[Callable[[], None]] = []

    def _call(self, method: Method, _: Mapping[str, Any]) -> object:
        answer = {"list_environments": self.answer, "check": self.found}[method.name]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def is_connected(self, _: str) -> bool:
        return self.state is CONNECTED

    def engine(self, name: str) -> Engine:
        return remote_engine(name, self._call)

    def run(self, work: Any, success: Any, failure: Any) -> None:
        def carry_out() -> None:
            try:
                result = work()
            except Exception as error:
                return failure(error)
            return success(result)

        self.work.append(carry_out)

    def carry_out(self) -> int:
        """Carry out what waits; return how much that was."""
        work, self.work = self.work, []
        for each in work:
            each()
        return len(work)

    def tell(self, state: LinkStatus) -> None:
        self.state = state
        self.status_changed.emit("gpus", state)


@pytest.fixture
def link() -> Link:
    return Link()


@pytest.fixture
def there(link: Link) -> EnvironmentsThere:
    return EnvironmentsThere(link)  # type: ignore[arg-type]  # a double


def test_until_it_has_answered_nothing_can_start(there: EnvironmentsThere, link: Link) -> None:
    there.follow("gpus")
    (problem,) = there.problems(SPEC, RECIPE)
    assert (problem.field, "gpus has not said" in problem.text) == ("interpreter", True)
    link.carry_out()
    assert there.problems(SPEC, RECIPE) == []
    assert there.default_for("torch") == TORCH.python
    assert there.default_for("tensorflow") == ""


def test_a_machine_is_asked_again_when_it_is_connected_again_and_only_then(
    there: EnvironmentsThere, link: Link
) -> None:
    link.state = WAITING
    there.follow("gpus")
    assert not link.work
    link.tell(CONNECTED)
    link.tell(CONNECTED)  # with each answer to a ping
    assert link.carry_out() == 1
    link.tell(WAITING)
    link.answer = []
    link.tell(CONNECTED)
    assert there.environments == [TORCH], "it is known until the answer comes"
    assert link.carry_out() == 1
    assert there.environments == []


def test_a_list_that_is_as_before_is_not_shown_anew(there: EnvironmentsThere, link: Link) -> None:
    told: list[str] = []
    there.listed.connect(lambda: told.append("listed"))
    there.checked.connect(lambda: told.append("checked"))
    there.follow("gpus")
    link.carry_out()
    there.ask_again()
    assert not link.work, "it was asked a moment ago"
    there.ask()
    link.carry_out()
    assert told == ["listed", "checked"]


def test_an_answer_is_one_of_its_machine(there: EnvironmentsThere, link: Link) -> None:
    there.follow("lab")
    there.follow("gpus")
    link.work.pop()  # its own answer is still on the way
    link.carry_out()
    assert there.environments is None
    there.follow("lab")
    assert there.environments == [TORCH], "it is known until the answer comes"


def test_the_list_is_known_before_it_is_chosen(there: EnvironmentsThere, link: Link) -> None:
    link.tell(CONNECTED)
    assert link.carry_out() == 1
    there.follow("gpus")
    assert there.environments == [TORCH]
    link.status_changed.emit("gpus", None)  # it may be another one when it is connected again
    assert there.environments is None


def test_what_cannot_be_read_there_is_said(there: EnvironmentsThere, link: Link) -> None:
    link.answer = NoAnswer("gpus: The list is damaged.")
    there.follow("gpus")
    link.tell(WAITING)
    link.carry_out()
    assert (there.environments, there.problem) == (None, "")
    link.tell(CONNECTED)
    link.carry_out()
    assert (there.environments, there.problem) == ([], "gpus: The list is damaged.")
    link.answer = [TORCH]
    there.ask()
    link.carry_out()
    assert (there.environments, there.problem) == ([TORCH], "")


def test_a_python_is_checked_there_once(there: EnvironmentsThere, link: Link) -> None:
    told: list[None] = []
    there.checked.connect(lambda: told.append(None))
    there.follow("gpus")
    link.carry_out()
    wrong = Problem("interpreter", "It lacks torch.")
    link.found = [wrong, Problem("devices", "They are busy.")]
    assert there.problems(SPEC, RECIPE) == []
    assert there.problems(SPEC, RECIPE) == []
    assert link.carry_out() == 1
    assert there.problems(SPEC, RECIPE) == [wrong]
    assert (len(told), link.carry_out()) == (1, 0)
    link.found = []
    there.ask()
    assert there.problems(SPEC, RECIPE) == [wrong], "it is known until the answer comes"
    link.carry_out()
    assert there.problems(SPEC, RECIPE) == []
