"""Why an engine did not do what was asked: what another machine tells, and which exception."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from engine.client import CannotStart, CheckpointUnusable, CommandFailed, NoSuchRun, RecipeChanged
from engine.files.disk_errors import disk_problem
from engine.interface.encoding import UnfitArgument
from engine.interface.files.transfers import Unfit
from engine.interface.values import NoAnswer
from engine.spec.spec_file import UnreadableSpec
from engine.spec.validation import Problem
from engine.system.cancelled import Cancelled


@cache
def known_exceptions() -> dict[str, type[Exception]]:
    """Return the exceptions with a text alone, by name: they are the same on both sides."""
    # They are needed when something has failed, and their modules take long to import.
    from engine.environments.creation import CreationFailed
    from engine.environments.registry import CannotChange
    from engine.exports.export_runs import CannotExport
    from engine.imports.found_run import CannotImport
    from engine.interface.local_watches import NoStore
    from engine.planning.kept import NoSuchResult
    from engine.runs.device_queue import CannotMoveRun
    from engine.runs.trash import CannotDelete
    from engine.scripts.interpreters import NoInterpreter
    from engine.spec.catalog import UnknownName
    from engine.sweeps.study import DamagedJournal
    from engine.sweeps.sweep import NoSuchSweep, SweepActive

    kinds = (
        *(NoSuchRun, CommandFailed, CannotMoveRun, CannotDelete, CannotExport, CannotImport),
        *(CannotChange, CreationFailed, NoSuchSweep, SweepActive, DamagedJournal),
        *(NoStore, NoSuchResult, NoInterpreter, UnknownName, Cancelled),
    )
    return {kind.__name__: kind for kind in kinds}


def _name_of(error: Exception) -> str:
    """Return the name of the exception that both sides know `error` by; empty: there is none."""
    return next((name for name, kind in known_exceptions().items() if isinstance(error, kind)), "")


class Refusal(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a call was not carried out."""

    text: str
    """Sentences."""

    kind: str = ""
    """The name of an exception that both sides know; `unknown`: the method is not known; empty:
    none of these."""

    problems: list[Problem] = []
    changes: str = ""
    """In what the recipe has changed."""

    damaged: str = ""
    """The name of a damaged checkpoint."""

    previous: str = ""
    """The name of the intact one before it."""


class RemoteCheckpointUnusable(CheckpointUnusable):
    """`CheckpointUnusable` of another machine: `previous` has the name of a folder there."""

    def __init__(self, refusal: Refusal) -> None:
        CannotStart.__init__(self, refusal.problems or [Problem("", refusal.text)])
        self.damaged = refusal.damaged
        self.previous = Path(refusal.previous) if refusal.previous else None


def refusal_of(error: Exception) -> Refusal:
    """Return what the other side is told about `error`."""
    text = str(error)
    match error:
        case RecipeChanged(changes=changes):
            return Refusal(text, RecipeChanged.__name__, error.problems, changes=changes)
        case CheckpointUnusable(damaged=damaged, previous=previous):
            name = previous.name if previous else ""
            kind, found = CheckpointUnusable.__name__, error.problems
            return Refusal(text, kind, found, damaged=damaged, previous=name)
        case CannotStart(problems=problems):
            return Refusal(text, CannotStart.__name__, problems)
        case UnfitArgument(field=field):
            return Refusal(text, CannotStart.__name__, [Problem(field, text)])
        case Cancelled():
            return Refusal("It was cancelled.", Cancelled.__name__)
        case _ if name := _name_of(error):
            return Refusal(text, name)
        case OSError() if reason := disk_problem(error):
            where = f" {error.filename}:" if error.filename else ""
            return Refusal(f"This could not be done there:{where} {reason}.")
        case sqlite3.Error() | OSError():
            return Refusal(f"This could not be done there: {error}.")
        case Unfit() | UnreadableSpec() | ValueError():  # what was asked for does not fit
            return Refusal(text)
        case _:
            return Refusal(
                f"This failed there by an error of Traindeck: {type(error).__name__}: {error}."
            )


LONGEST_TEXT = 5000
"""Characters of what another machine says."""


def error_of(refusal: Refusal, machine: str, arguments: Mapping[str, Any]) -> Exception:
    """Return the exception that the engine of this machine would have raised for the same."""
    refusal = msgspec.structs.replace(refusal, text=refusal.text[:LONGEST_TEXT])
    match refusal.kind:
        case "RecipeChanged":
            return RecipeChanged(str(arguments.get("run", "")), refusal.changes)
        case "CheckpointUnusable":
            return RemoteCheckpointUnusable(refusal)
        case "CannotStart":
            return CannotStart(refusal.problems or [Problem("", refusal.text)])
        case kind if kind in known_exceptions():
            return known_exceptions()[kind](named(machine, refusal.text))
        case _:
            return NoAnswer(named(machine, refusal.text))


def named(machine: str, text: str) -> str:
    """Return a sentence with the name of a machine before it."""
    is_named = not machine or text.startswith((f"{machine} ", f"{machine}: "))
    return text if is_named else f"{machine}: {text}"
