"""The environments that can train a recipe, and a thread that makes one."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from PySide6.QtCore import QObject, Signal

from engine.environments import needs
from engine.environments.creation import CreationFailed, Stage
from engine.environments.needs import FRAMEWORKS, ON_GPUS, TITLES
from engine.environments.registry import CannotChange, Environment
from engine.files.disk_errors import short_reason
from engine.interface.values import NoAnswer, NotConnected
from engine.runs.run_info import RunInfo
from engine.spec.recipe_file import RecipeInfo
from engine.spec.run_spec import RunSpec
from engine.spec.strategy import Strategy
from engine.spec.validation import Problem
from engine.spec.worker_python import interpreter_problems, python_of_run
from engine.system.cancelled import Cancelled
from gui.bridge.machines.machines import Machines, is_elsewhere

if TYPE_CHECKING:
    from engine.interface.values import CreationPart

_log = logging.getLogger(__name__)

STOP_SECONDS = 10.0
"""Longest wait for the end of a creation when the window closes."""

_MOST_LOG = 64 * 2**10
_KNOWN_SECONDS = 2.0
"""How long what was read of an environment is taken as true, while a person types."""


class Choice(NamedTuple):
    """A Python that can be chosen."""

    interpreter: str
    """Path of its program; empty: the Python of Traindeck."""

    title: str
    """Such as `tensorflow-gpu · Python 3.12.4`."""


def choices(machine: str, found: Sequence[Environment], chosen: str) -> list[Choice]:
    """Return Traindeck's own Python on a machine (empty: this one), the environments that were
    `found` there, and the Python `chosen` if it is none of them."""
    version = ".".join(map(str, sys.version_info[:3]))
    own = f"Traindeck's own on {machine}" if machine else f"Traindeck's own · Python {version}"
    listed = {"": Choice("", own)}
    for each in found:
        listed[each.python] = Choice(each.python, _title(each))
    listed.setdefault(chosen, Choice(chosen, chosen))
    return list(listed.values())


def package_of(strategy: Strategy) -> str:
    """Return the framework of a strategy, as environments name it."""
    return needs.package_of(strategy.framework)


def framework_title(framework: str) -> str:
    """Return the name of a framework for a person."""
    return TITLES.get(framework, framework)


def requirement_of(framework: str) -> str:
    """Return what is installed into a new environment for `framework` on GPUs."""
    return ON_GPUS.get(framework) or FRAMEWORKS[framework][0]


class WorkerChecks:
    """Says why a Python cannot train a recipe, without reading its files at each key."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], tuple[float, list[Problem]]] = {}

    def problems(self, spec: RunSpec, recipe: RecipeInfo, strategy: Strategy) -> list[Problem]:
        """See `engine.spec.worker_python.interpreter_problems`."""
        asked = (spec.interpreter, strategy.framework, recipe.framework, spec.devices)
        asked = (*asked, recipe.builtin, spec.is_script)  # type: ignore[assignment]
        before, found = self._known.get(asked, (0.0, []))
        now = time.monotonic()
        if asked not in self._known or now > before + _KNOWN_SECONDS:
            found = interpreter_problems(spec, recipe, strategy)
            self._known = {asked: (now, found)}
        return found


class EnvironmentMaker(QObject):
    """Makes one environment at a time, here or on another machine, in a thread of its own."""

    progressed = Signal(object)
    """Stage"""

    made = Signal(object)
    """Environment"""

    failed = Signal(str)
    """A sentence; nothing of the environment is left but its log."""

    cancelled = Signal()

    def __init__(self, machines: Machines, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._machines = machines
        self._thread: threading.Thread | None = None
        self._cancel = threading.Event()
        self.name = ""
        """Of the environment that is being made, or was made last."""

        self.machine = ""
        """Where that is; empty: here."""

        self.default_for = ""
        """The framework whose recipes it was to train from then on; empty: none."""

        self._output = ""
        """The end of what pip has printed."""

        for signal in (self.made, self.failed, self.cancelled):
            signal.connect(self._ended)

    @property
    def is_making(self) -> bool:
        """Whether an environment is being made."""
        return self._thread is not None

    def start(
        self, name: str, requirements: Sequence[str], default_for: str = "", machine: str = ""
    ) -> None:
        """Make the environment `name`; `default_for`: a framework that it trains from then on;
        `machine`: where; empty: here."""
        if self._thread is not None:
            return
        self.name, self.machine, self.default_for = name, machine, default_for
        self._output = ""
        self._cancel.clear()
        self._thread = threading.Thread(
            target=self._make, args=(name, requirements, default_for), name="environment"
        )
        self._thread.start()

    def cancel(self) -> None:
        """End the creation; `cancelled` follows when nothing of it is left."""
        self._cancel.set()

    def stop(self) -> None:
        """Cancel because the window closes, and wait for that."""
        self._cancel.set()
        if self._thread is not None:
            self._thread.join(STOP_SECONDS)

    def log(self) -> str:
        """Return the end of what pip has printed; empty if there is nothing."""
        return self._output

    def _make(self, name: str, requirements: Sequence[str], default_for: str) -> None:
        try:
            engine = self._machines.engine(self.machine)
            made = engine.make_environment(
                name, requirements, default_for, self._take_part, self._cancel
            )
        except Cancelled:
            self.cancelled.emit()
        except NotConnected:
            self.failed.emit(self._loss())
        except (CannotChange, CreationFailed, NoAnswer) as error:
            self.failed.emit(str(error))
        except OSError as error:
            self.failed.emit(f"The environment was not made: {short_reason(error)}.")
        except Exception as error:  # the person waits for a word
            _log.exception("the environment %s was not made", name)
            self.failed.emit(f"{type(error).__name__}: {error}")
        else:
            self.made.emit(made)

    def _loss(self) -> str:
        """Return what a connection that has ended means, in sentences."""
        status = self._machines.status(self.machine)
        text = (
            f"There is no connection to {self.machine} any more: an environment that was not "
            "ready yet is deleted there, at the latest by the next command `env` there."
        )
        return f"{text} {status.sentence if status else ''}".rstrip()

    def _take_part(self, part: CreationPart) -> None:
        self._output = f"{self._output}{part.output}"[-_MOST_LOG:]
        self.progressed.emit(Stage(part.doing, part.bytes))

    def _ended(self) -> None:
        if self._thread is not None:
            self._thread.join()  # this was its last word
        self._thread = None


def python_text(info: RunInfo) -> str:
    """Return which Python a run has used, with its versions; empty: Traindeck's own."""
    return "" if is_elsewhere(info) else python_of_run(info.folder, info.spec.interpreter)


def _title(environment: Environment) -> str:
    version = environment.facts.python
    text = f"{environment.name} · Python {version}" if version else environment.name
    frameworks = [framework_title(each) for each in environment.facts.versions]
    return " · ".join([text, *frameworks])


def folder_of(interpreter: str) -> str:
    """Return where a file dialog begins that looks for another Python."""
    return str(Path(interpreter).parent) if interpreter else str(Path.home())
