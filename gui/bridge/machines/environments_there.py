"""The Pythons of the other machine that is chosen in the form, and why one cannot train there."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from engine.client import CannotStart
from engine.environments.registry import Environment
from engine.spec.recipe_file import RecipeInfo
from engine.spec.run_spec import RunSpec
from engine.spec.validation import Problem
from gui.bridge.background import Background
from gui.style.translation import translate

if TYPE_CHECKING:
    from engine.remote.connection import LinkStatus


_KNOWN_SECONDS = 10.0
"""How long an answer is taken as true, while a person goes in and out of the form."""

_Asked = tuple[object, ...]


class EnvironmentsThere(QObject):
    """Asks one machine; what it has answered is known until it is asked again."""

    listed = Signal()
    """There is another list, or why there is none."""

    checked = Signal()
    """`problems` knows more, or asks again."""

    def __init__(self, background: Background | None = None, parent: QObject | None = None) -> None:
        """`background`: asks the machines; None: no machine is asked."""
        super().__init__(parent)
        self._background = background
        self.machine = ""
        """Empty: this machine, which is not asked."""

        self.environments: list[Environment] | None = None
        """Those that the machine has named; None: it has not answered yet."""

        self.problem = ""
        """Why they are not known, in a sentence."""

        self._number = 0
        """Of the newest question for a list; an older answer is late."""

        self._asked_at = 0.0
        self._must_ask = False
        """Whether the machine is to be asked as soon as it is connected."""

        self._found: dict[_Asked, list[Problem]] = {}
        """Problems by what decides on them."""

        self._asked: set[_Asked] = set()
        """What need not be asked again."""

        if background is not None:
            background.machines.status_changed.connect(self._connection_changed)

    def follow(self, machine: str) -> None:
        """Ask another machine from now on; empty: none."""
        self.machine, self.environments, self.problem = machine, None, ""
        self._found = {}
        self.ask()

    def ask_again(self) -> None:
        """Ask, unless that was done a moment ago."""
        if time.monotonic() > self._asked_at + _KNOWN_SECONDS:
            self.ask()

    def ask(self) -> None:
        """Read the list again, and then check again."""
        self._asked_at = time.monotonic()
        self._asked.clear()
        self._number += 1
        background, machine = self._background, self.machine
        if background is None or not machine:
            return
        self._must_ask = not background.machines.is_connected(machine)
        if self._must_ask:
            return
        number = self._number

        def work() -> list[Environment]:
            from gui.bridge.machines.remote_run import environments_elsewhere

            return environments_elsewhere(background.machines.connection(machine))

        background.run(work, partial(self._take, number), partial(self._fail, number))

    def default_for(self, framework: str) -> str:
        """Return the Python that trains recipes of `framework` there; empty: Traindeck's own."""
        found = self.environments or ()
        return next((each.python for each in found if framework in each.default_for), "")

    def problems(self, spec: RunSpec, recipe: RecipeInfo) -> list[Problem]:
        """Return why the Python of `spec` cannot train `recipe` there, as far as it is known; what
        is not is asked for. Emits `checked` then."""
        if self.environments is None:
            text = translate("Environments", "{machine} has not said yet which Pythons it has.")
            return [Problem("interpreter", text.format(machine=self.machine))]
        asked = (spec.recipe, recipe.framework, spec.strategy, spec.interpreter, spec.devices)
        if asked not in self._asked and self._background is not None:
            self._asked.add(asked)
            self._check(self._background, spec, asked)
        return self._found.get(asked, [])

    def _check(self, background: Background, spec: RunSpec, asked: _Asked) -> None:
        machine, known = self.machine, self._found

        def work() -> list[Problem]:
            from gui.bridge.machines.remote_run import check_elsewhere

            return check_elsewhere(background.machines.connection(machine), spec)

        def take(found: Sequence[Problem]) -> None:
            before = known.get(asked, [])
            known[asked] = [each for each in found if each.field == "interpreter"]
            if known[asked] != before:
                self.checked.emit()

        def fail(error: Exception) -> None:
            if not isinstance(error, OSError | CannotStart):  # the start will say why
                raise error

        background.run(work, take, fail)

    def _take(self, number: int, found: list[Environment]) -> None:
        if number != self._number:
            return
        is_new = found != self.environments or bool(self.problem)
        self.environments, self.problem = found, ""
        told = self.listed if is_new else self.checked  # what is shown may be open
        told.emit()

    def _fail(self, number: int, error: Exception) -> None:
        if not isinstance(error, OSError):
            raise error
        machines = self._background.machines if self._background is not None else None
        is_broken = self._must_ask or machines is None or not machines.is_connected(self.machine)
        if number == self._number and not is_broken:  # otherwise it is asked again
            self.environments, self.problem = self.environments or [], str(error)
            self.listed.emit()

    def _connection_changed(self, machine: str, status: LinkStatus | None) -> None:
        """Ask a machine again that was not connected."""
        if machine != self.machine:
            return
        if status is None or status.state != "connected":
            self._must_ask = True
        elif self._must_ask:
            self.ask()
