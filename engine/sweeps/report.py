"""What a sweep has found so far, for the command line and the window."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from engine.spec.recipe_file import script_name
from engine.sweeps import study as studies
from engine.sweeps import sweep as sweeps
from engine.sweeps.study import OVER, DamagedJournal, TrialResult
from engine.sweeps.sweep import FILE_NAME, JOURNAL, LOG, REASON, NoSuchSweep, Sweep

if TYPE_CHECKING:
    from optuna import Study


STATES = frozenset({"running", "finished", "stopped", "damaged"})


class SweepSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One sweep in the list of all."""

    sweep: str
    """Its number; of another machine, such as `gpus:3`."""

    state: str
    """`running`, `finished`, `stopped` (it can go on) or `damaged`."""

    recipe: str = ""
    trials: int = 0
    done: int = 0
    best: TrialResult | None = None
    problem: str = ""
    """Why it cannot be read, as a sentence."""

    log: str = ""
    """The path of the log of its driver, on its machine."""

    reason: str = ""
    """Why it starts no more trials, as a sentence; empty: it does, or was stopped."""

    @property
    def recipe_name(self) -> str:
        """What the recipe is called; empty: it cannot be read."""
        return script_name(Path(self.recipe)) if self.recipe else ""


class SweepReport(msgspec.Struct, frozen=True):
    """Everything that is shown of a sweep."""

    summary: SweepSummary
    sweep: Sweep | None = None
    """None: it cannot be read."""

    trials: tuple[TrialResult, ...] = ()
    importance: dict[str, float] = {}
    """By setting, see `study.importance`."""


class SweepReader:
    """Reads one sweep again and again; each time only what is new. Not for several threads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._study: Study | None = None
        self._mark: object = None
        self._report: SweepReport | None = None
        self._importance: dict[str, float] = {}

    def read(self) -> SweepReport:
        """Return what is known now; of a damaged sweep, why it cannot be read.

        It is the same object as before if nothing has changed.
        """
        is_active = sweeps.is_active(self._folder)
        files = (FILE_NAME, JOURNAL, REASON)
        mark = is_active, *(_state_of(self._folder / each) for each in files)
        if self._report is None or mark != self._mark:
            try:
                self._report = self._read(is_active=is_active)
            except (NoSuchSweep, DamagedJournal) as error:
                self._study = None
                summary = SweepSummary(sweep=self._folder.name, state="damaged", problem=str(error))
                self._report = SweepReport(summary)
            self._mark = mark
        return self._report

    def _read(self, *, is_active: bool) -> SweepReport:
        sweep = sweeps.read(self._folder)
        if self._study is None:
            self._study = studies.read_study(self._folder)
        trials = studies.results(self._study)
        before = self._report.trials if self._report else ()
        if _valued(trials) != _valued(before):
            self._importance = studies.importance(self._study)
        if not is_active:  # nobody looks at their runs
            trials = [
                msgspec.structs.replace(each, state="interrupted")
                if each.state == "running"
                else each
                for each in trials
            ]
        done = sum(each.state in OVER for each in trials)
        ended = "stopped" if done < sweep.trials else "finished"
        summary = SweepSummary(
            sweep=self._folder.name,
            state="running" if is_active else ended,
            recipe=sweep.base.recipe,
            trials=sweep.trials,
            done=done,
            best=studies.best_of(trials, lowest=sweep.lowest),
            log=str(self._folder / LOG),
            reason=sweeps.reason_of(self._folder),
        )
        return SweepReport(summary, sweep, tuple(trials), self._importance)


class SweepIndex:
    """Reads all sweeps again and again. Not for several threads."""

    def __init__(self) -> None:
        self._readers: dict[str, SweepReader] = {}

    def read(self) -> list[SweepReport]:
        """Return all sweeps, newest first."""
        folders = {each.name: each for each in sweeps.folders()}
        self._readers = {
            number: self._readers.get(number) or SweepReader(folder)
            for number, folder in folders.items()
        }
        return [reader.read() for reader in self._readers.values()]


def resume(folder: Path) -> None:
    """Let a sweep go on whose driver has stopped or died.

    Raises NoSuchSweep, DamagedJournal, SweepActive, OSError.
    """
    studies.results(studies.read_study(folder))
    sweeps.drive(folder)


def _valued(trials: Sequence[TrialResult]) -> int:
    """Return how many trials importance is computed from."""
    return sum(each.state == "finished" for each in trials)


def _state_of(file: Path) -> tuple[int, int]:
    try:
        found = file.stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size
