"""Writes a new recipe from a template, and tries a recipe on one batch in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
from PySide6.QtCore import QObject, Signal

from engine.facts.equivalent_command import train_arguments
from engine.spec.catalog import TEMPLATES, template_kinds
from engine.spec.run_spec import RunSpec
from gui.bridge.background import Background
from gui.style.translation import translate

_MAIN = TEMPLATES.parents[2] / "main.py"

CHECK_SECONDS = 120
_END_SECONDS = 60
"""Time for the check to end by itself after that, with what it has found."""


class CannotWrite(Exception):
    """The recipe was not written; the text is a sentence."""


class CheckResult(msgspec.Struct, frozen=True):
    """What a check has found; see `engine.cli.commands.check`."""

    recipe: str = ""
    ok: bool = False
    problem: str = ""
    where: str = ""
    details: str = ""
    notices: list[str] = []
    parameters: int = 0
    loss: float | None = None
    seconds: float = 0.0


def recipe_kinds() -> list[str]:
    """Return for what a recipe can be written, such as `torch`."""
    return template_kinds()


def write_recipe(file: Path, kind: str) -> None:
    """Write a commented recipe of `kind` to `file`; replaces it. Raises CannotWrite."""
    try:
        file.write_text((TEMPLATES / f"{kind}.py").read_text("utf-8"), encoding="utf-8")
    except OSError as error:
        text = translate("RecipeTools", "{file} was not written: {why}.")
        raise CannotWrite(text.format(file=file, why=error.strerror or error)) from error


class RecipeCheck(QObject):
    """Tries one recipe at a time."""

    checked = Signal(object)
    """The CheckResult."""

    def __init__(self, background: Background, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._background = background
        self._process: subprocess.Popen[str] | None = None

    @property
    def is_checking(self) -> bool:
        """Whether a recipe is being tried."""
        return self._process is not None

    def start(self, spec: RunSpec) -> None:
        """Try the recipe of `spec` on one batch. Emits `checked`."""
        if self._process is not None:
            return
        arguments = train_arguments(spec)
        if "--recipe" in arguments:
            place = arguments.index("--recipe")
            del arguments[place : place + 2]
        words = [sys.executable, str(_MAIN), "check", "--json", f"--seconds={CHECK_SECONDS}"]
        try:
            process = self._process = subprocess.Popen(
                [*words, *arguments, spec.recipe], text=True, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip
        except OSError as error:
            self.checked.emit(CheckResult(spec.recipe, problem=str(error)))
            return
        self._background.run(lambda: _result(process, spec.recipe), self._report, _unexpected)

    def stop(self) -> None:
        """End the check, because the window closes."""
        if self._process is not None:
            self._process.terminate()

    def _report(self, result: CheckResult) -> None:
        self._process = None
        self.checked.emit(result)


def _result(process: subprocess.Popen[str], recipe: str) -> CheckResult:
    try:
        printed, said = process.communicate(timeout=CHECK_SECONDS + _END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        printed, said = process.communicate()
    try:
        return msgspec.json.decode(printed, type=_Printed).result(recipe)
    except msgspec.DecodeError:
        lines = said.strip().splitlines()
        text = translate("RecipeTools", "The check ended without a result: {why}")
        why = lines[-1] if lines else str(process.returncode)
        return CheckResult(recipe, problem=text.format(why=why))


class _Refused(msgspec.Struct):
    text: str


class _Printed(CheckResult, frozen=True):
    """What the command prints: a result, or why it was refused."""

    problems: list[_Refused] = []

    def result(self, recipe: str) -> CheckResult:
        """Return the result; the sentences of a refusal are its problem."""
        problem = " ".join([self.problem, *(each.text for each in self.problems)]).strip()
        return CheckResult(
            recipe, self.ok and not problem, problem, self.where, self.details, self.notices,
            self.parameters, self.loss, self.seconds,
        )  # fmt: skip


def _unexpected(error: Exception) -> None:
    raise error
