"""The Pythons of the machine of the form, and why one of another machine cannot train."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from PySide6.QtCore import QObject, Signal

from engine.client import CannotStart
from engine.environments import registry
from engine.environments.registry import Environment
from engine.spec.recipe_file import RecipeInfo
from engine.spec.run_spec import RunSpec
from engine.spec.validation import Problem
from gui.bridge.background import Background
from gui.bridge.machines.machines import Machines

if TYPE_CHECKING:
    from engine.remote.connection import LinkStatus


_KNOWN_SECONDS = 10.0
"""How long an answer is taken as true, while a person goes in and out of the form."""

_Asked = tuple[object, ...]


class _Listed(NamedTuple):
    """What a machine has answered."""

    environments: list[Environment]
    problem: str = ""


class EnvironmentsThere(QObject):
    """Asks each machine when it is connected, so that its list is known when it is chosen; the list
    of this machine is a file, which is read at once."""

    listed = Signal()
    """The list of the chosen machine is another one, or there is a reason why there is none."""

    checked = Signal()
    """`problems` knows more, or asks again."""

    def __init__(self, background: Background | None = None, parent: QObject | None = None) -> None:
        """`background`: asks the machines; None: there is only this one."""
        super().__init__(parent)
        self._background = background or Background(self)
        self.machine = ""
        """Empty: this machine."""

        self._lists: dict[str, _Listed] = {}
        self._numbers: dict[str, int] = {}
        """Of the newest question to each machine; the answer to an older one is late."""

        self._asked_at = 0.0
        self._connected: set[str] = set()
        self._found: dict[_Asked, list[Problem]] = {}
        """Problems by what decides on them."""

        self._asked: set[_Asked] = set()
        """What need not be asked again."""

        self._background.machines.status_changed.connect(self._connection_changed)

    @property
    def machines(self) -> Machines:
        """Those that are asked."""
        return self._background.machines

    @property
    def environments(self) -> list[Environment] | None:
        """Those of the chosen machine; None: it has not answered yet."""
        known = self._known()
        return None if known is None else known.environments

    @property
    def problem(self) -> str:
        """Why they are not known, in a sentence."""
        known = self._known()
        return "" if known is None else known.problem

    def _known(self) -> _Listed | None:
        return self._lists.get(self.machine) if self.machine else _listed_here()

    def follow(self, machine: str) -> None:
        """Choose a machine; empty: this one."""
        self.machine, self._found = machine, {}
        self.ask()

    def ask_again(self) -> None:
        """Ask, unless that was done a moment ago."""
        if time.monotonic() > self._asked_at + _KNOWN_SECONDS:
            self.ask()

    def ask(self) -> None:
        """Read the list of the chosen machine again, and then check again."""
        self._asked_at = time.monotonic()
        self._asked.clear()
        if self.machine:
            self.ask_of(self.machine)

    def ask_of(self, machine: str) -> None:
        """Read the list of a machine again."""
        background = self._background
        if not background.machines.is_connected(machine):
            return  # it is asked when it is connected
        number = self._numbers[machine] = self._numbers.get(machine, 0) + 1

        def work() -> list[Environment]:
            return background.machines.engine(machine).list_environments()

        def take(found: list[Environment]) -> None:
            if number == self._numbers[machine]:
                self._take(machine, _Listed(found))

        def fail(error: Exception) -> None:
            if not isinstance(error, OSError):
                raise error
            is_connected = machine in self._connected and background.machines.is_connected(machine)
            if number == self._numbers[machine] and is_connected:
                known = self._lists.get(machine)
                self._take(machine, _Listed(known.environments if known else [], str(error)))

        background.run(work, take, fail)

    def default_for(self, framework: str) -> str:
        """Return the Python that trains recipes of `framework` on the chosen machine; empty:
        Traindeck's own."""
        found = self.environments or ()
        return next((each.python for each in found if framework in each.default_for), "")

    def problems(self, spec: RunSpec, recipe: RecipeInfo) -> list[Problem]:
        """Return why the Python of `spec` cannot train `recipe` there, as far as it is known; what
        is not is asked for. Emits `checked` then."""
        if self.environments is None:
            text = f"{self.machine} has not said yet which Pythons it has."
            return [Problem("interpreter", text)]
        asked = (spec.recipe, recipe.framework, spec.strategy, spec.interpreter, spec.devices)
        if asked not in self._asked:
            self._asked.add(asked)
            self._check(spec, asked)
        return self._found.get(asked, [])

    def _check(self, spec: RunSpec, asked: _Asked) -> None:
        machine, known, background = self.machine, self._found, self._background

        def work() -> list[Problem]:
            from engine.interface.recipes import send_recipe

            engine = background.machines.engine(machine)
            return engine.check(send_recipe(engine, spec)[0])

        def take(found: Sequence[Problem]) -> None:
            before = known.get(asked, [])
            known[asked] = [each for each in found if each.field == "interpreter"]
            if known[asked] != before:
                self.checked.emit()

        def fail(error: Exception) -> None:
            if not isinstance(error, OSError | CannotStart):  # the start will say why
                raise error

        background.run(work, take, fail)

    def _take(self, machine: str, found: _Listed) -> None:
        is_new = found != self._lists.get(machine)
        self._lists[machine] = found
        if machine == self.machine:
            told = self.listed if is_new else self.checked  # what is shown may be open
            told.emit()

    def _connection_changed(self, machine: str, status: LinkStatus | None) -> None:
        """Ask a machine that is connected now."""
        if status is None:
            self._lists.pop(machine, None)
        if status is None or status.state != "connected":
            self._connected.discard(machine)
        elif machine not in self._connected:
            self._connected.add(machine)
            self.ask_of(machine)


def _listed_here() -> _Listed:
    try:
        return _Listed(registry.environments())
    except OSError as error:
        return _Listed([], f"{str(error)[:1].upper()}{str(error)[1:]}.")
