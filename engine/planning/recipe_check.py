"""Tries a recipe on one batch, in a process that carries out the command `check`."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from typing import Any

import msgspec

from engine.facts.equivalent_command import train_arguments
from engine.processes import children
from engine.processes.process import PROJECT
from engine.spec.catalog import UnknownName
from engine.spec.run_spec import RunSpec

CHECK_SECONDS = 120
END_SECONDS = 60.0
"""Time for the check to end by itself after that, with what it has found; or when it is cancelled.
"""

_LOOK_SECONDS = 0.1


class CheckResult(msgspec.Struct, frozen=True):
    """What a check has found, as `check --json` prints it."""

    recipe: str = ""
    """The path of its file, or the name of a built-in one."""

    framework: str = ""
    strategy: str = ""
    devices: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    settings: dict[str, Any] = {}
    ok: bool = False
    problem: str = ""
    """Why it cannot train, in a sentence; empty: it can."""

    where: str = ""
    """File and line of the problem, if they are known."""

    details: str = ""
    notices: tuple[str, ...] = ()
    """What should be known, though it trains: one sentence each."""

    parameters: int = 0
    steps_per_epoch: int = 0
    loss: float | None = None
    """Of the first batch."""

    metrics: tuple[str, ...] = ()
    """The series that it gave."""

    seconds: float = 0.0


def try_recipe(spec: RunSpec, cancelled: threading.Event) -> CheckResult:
    """Train one batch with the settings of `spec`; nothing is kept of it.

    When it is `cancelled`, the process and its workers end before this returns.
    """
    try:
        arguments = train_arguments(spec)
    except UnknownName as error:
        return CheckResult(spec.recipe, problem=str(error))
    if "--recipe" in arguments:
        place = arguments.index("--recipe")
        del arguments[place : place + 2]
    words = [sys.executable, str(PROJECT / "main.py"), "check", "--json"]
    try:
        process = children.start(
            [*words, f"--seconds={CHECK_SECONDS}", *arguments, spec.recipe],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except OSError as error:
        return CheckResult(spec.recipe, problem=str(error))
    printed, said = _outcome(process, cancelled)
    try:
        found = msgspec.json.decode(printed, type=CheckResult)
        refused = msgspec.json.decode(printed, type=_Refused)
    except msgspec.DecodeError:
        lines = said.decode(errors="replace").strip().splitlines()
        why = lines[-1] if lines else str(process.returncode)
        return CheckResult(spec.recipe, problem=f"The check ended without a result: {why}")
    problem = " ".join([found.problem, *(each.text for each in refused.problems)]).strip()
    return msgspec.structs.replace(found, recipe=spec.recipe, problem=problem)


def _outcome(process: subprocess.Popen[bytes], cancelled: threading.Event) -> tuple[bytes, bytes]:
    """Return the output of the process when it has ended; end it when it is `cancelled`."""
    latest, is_ending = time.monotonic() + CHECK_SECONDS + END_SECONDS, False
    while True:
        try:
            return process.communicate(timeout=_LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            if cancelled.is_set() and not is_ending:
                process.terminate()
                latest, is_ending = time.monotonic() + END_SECONDS, True
            if time.monotonic() > latest:
                process.kill()  # a process of its own ends its workers then


class _Problem(msgspec.Struct):
    text: str


class _Refused(msgspec.Struct):
    """What the command prints in the place of a result."""

    problems: list[_Problem] = []
