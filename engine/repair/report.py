"""What a check finds: each finding says what is wrong, where, and what was or can be done."""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path

import msgspec

_log = logging.getLogger(__name__)

Progress = Callable[[str], None]
"""Takes a few words about what is checked at this moment."""


class Outcome(StrEnum):
    """What became of a finding."""

    MENDED = "mended"
    MENDABLE = "can be mended"
    UNMENDABLE = "cannot be mended"
    LEFT_ALONE = "left alone"
    """Not damage: this version or this process must not touch it."""


class Damage(msgspec.Struct, frozen=True):
    """One thing that is wrong."""

    run: str
    """Id of the run; empty: a file of the data folder."""

    file: str
    """Relative to the run folder or the data folder."""

    problem: str
    """A sentence."""

    outcome: Outcome
    action: str
    """A sentence: what was done, what `--repair` does, or what the user can do."""

    @property
    def remains(self) -> bool:
        """Whether it is still wrong."""
        return self.outcome in (Outcome.MENDABLE, Outcome.UNMENDABLE)


class Report:
    """Collects findings, and mends them at once if it may."""

    def __init__(self, *, repair: bool, progress: Progress = lambda text: None) -> None:
        self.repair = repair
        self.progress = progress
        self.findings: list[Damage] = []

    def for_run(self, run_id: str) -> RunReport:
        """Return a report on one run that adds its findings to this one."""
        return RunReport(self, run_id)

    def add(self, finding: Damage) -> None:
        """Add `finding`."""
        _log.info("%s", finding)
        self.findings.append(finding)


class RunReport:
    """Adds findings about one run, or about the data folder if the id is empty."""

    def __init__(self, report: Report, run_id: str) -> None:
        self._report = report
        self._run = run_id
        self.repair = report.repair

    def progress(self, text: str) -> None:
        """Say in a few words what is checked at this moment."""
        self._report.progress(f"run {self._run}: {text}" if self._run else text)

    def mendable(self, file: str, problem: str, remedy: str, mend: Callable[[], object]) -> bool:
        """Add what `mend` can mend; call it if this is a repair. Return whether it was mended.

        `remedy` is a clause in the present tense without a full stop: what `mend` does. A text
        that `mend` returns is such a clause too: what became of it.
        """
        if not self.repair:
            self._add(file, problem, Outcome.MENDABLE, f"With --repair, {remedy}.")
            return False
        try:
            result = mend()
        except (OSError, sqlite3.Error) as error:
            self._add(file, problem, Outcome.UNMENDABLE, f"It was not mended: {_why(error)}")
            return False
        done = f"{remedy}; {result}" if isinstance(result, str) else remedy
        self._add(file, problem, Outcome.MENDED, f"Mended: {done}.")
        return True

    def unmendable(self, file: str, problem: str, advice: str) -> None:
        """Add what cannot be mended; `advice` is a sentence: what the user can do."""
        self._add(file, problem, Outcome.UNMENDABLE, advice)

    def left_alone(self, file: str, reason: str) -> None:
        """Add what must not be touched; `reason` is a sentence."""
        self._add(file, reason, Outcome.LEFT_ALONE, "")

    def _add(self, file: str, problem: str, outcome: Outcome, action: str) -> None:
        self._report.add(Damage(self._run, file, problem, outcome, action))


def move_aside(path: Path) -> Path:
    """Rename a damaged file or folder to `<name>.damaged-<n>`, and return it. Raises OSError."""
    aside = free_name(path)
    path.rename(aside)
    return aside


def free_name(path: Path, ends: Sequence[str] = ("",)) -> Path:
    """Return the next name `<name>.damaged-<n>` that is free beside `path`, with all `ends`."""
    number = 1
    while True:
        aside = path.with_name(f"{path.name}.damaged-{number}")
        if not any(os.path.lexists(f"{aside}{end}") for end in ends):
            return aside
        number += 1


def _why(error: Exception) -> str:
    """Return a sentence about an error of the disk."""
    full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    if full or "disk is full" in str(error):
        return "the disk is full. Make room, then repair again."
    read_only = isinstance(error, OSError) and error.errno == errno.EROFS
    if read_only or "readonly database" in str(error):
        return "the disk is read-only. Make it writable, then repair again."
    return f"{error}. Nothing was changed."
