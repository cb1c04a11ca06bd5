"""Writes a new recipe from a template, and tries a recipe on one batch, here or elsewhere."""

from __future__ import annotations

import threading
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from engine.client import CannotStart
from engine.planning.results import CheckResult
from engine.spec.catalog import TEMPLATES, template_kinds
from engine.spec.run_spec import RunSpec
from engine.system.cancelled import Cancelled
from gui.bridge.background import Background

__all__ = ["CannotWrite", "CheckResult", "RecipeCheck", "recipe_kinds", "write_recipe"]


class CannotWrite(Exception):
    """The recipe was not written; the text is a sentence."""


def recipe_kinds() -> list[str]:
    """Return for what a recipe can be written, such as `torch`."""
    return template_kinds()


def write_recipe(file: Path, kind: str) -> None:
    """Write a commented recipe of `kind` to `file`; replaces it. Raises CannotWrite."""
    try:
        file.write_text((TEMPLATES / f"{kind}.py").read_text("utf-8"), encoding="utf-8")
    except OSError as error:
        raise CannotWrite(f"{file} was not written: {error.strerror or error}.") from error


class RecipeCheck(QObject):
    """Tries one recipe at a time."""

    checked = Signal(object, str)
    """The CheckResult, and the machine where it was tried; empty: this one. Not of a check that was
    stopped."""

    running = Signal(bool)
    """Whether a recipe is being tried from now on."""

    def __init__(self, background: Background, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._background = background
        self._cancelled = threading.Event()
        self.is_checking = False
        """Whether a recipe is being tried."""

    def start(self, spec: RunSpec, machine: str = "") -> None:
        """Try the recipe of `spec` on one batch, on this machine or on the one with this name, to
        which it is sent. Emits `checked`."""
        if self.is_checking:
            return
        cancelled, machines = threading.Event(), self._background.machines
        self._cancelled = cancelled
        self._set_checking(True)

        def work() -> CheckResult:
            from engine.interface.recipes import try_recipe

            return try_recipe(machines.engine(machine), spec, cancelled)

        def report(result: CheckResult) -> None:
            self._set_checking(False)
            if not cancelled.is_set():
                self.checked.emit(result, machine)

        def fail(error: Exception) -> None:
            report(CheckResult(spec.recipe, problem=str(error)))
            if not isinstance(error, CannotStart | OSError | Cancelled):
                raise error

        self._background.run(work, report, fail)

    def stop(self) -> None:
        """End the check, and what it has started."""
        self._cancelled.set()

    def _set_checking(self, is_checking: bool) -> None:
        self.is_checking = is_checking
        self.running.emit(is_checking)
