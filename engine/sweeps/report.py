"""What a sweep has found so far, for the command line and the window."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from engine.sweeps import study as studies
from engine.sweeps import sweep as sweeps
from engine.sweeps.study import OVER, DamagedJournal, TrialResult
from engine.sweeps.sweep import NoSuchSweep, Sweep

if TYPE_CHECKING:
    from optuna import Study


class SweepSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One sweep in the list of all."""

    sweep: str
    """Its number."""

    state: str
    """`running`, `finished`, `stopped` (it can go on) or `damaged`."""

    recipe: str = ""
    trials: int = 0
    done: int = 0
    best: TrialResult | None = None
    problem: str = ""
    """Why it cannot be read, as a sentence."""


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
        self._valued = -1
        self._importance: dict[str, float] = {}

    def read(self) -> SweepReport:
        """Return what is known now; of a damaged sweep, why it cannot be read."""
        number = self._folder.name
        try:
            is_active = sweeps.is_active(self._folder)
            sweep = sweeps.read(self._folder)
            if self._study is None:
                self._study = studies.read_study(self._folder)
            trials = studies.results(self._study)
        except (NoSuchSweep, DamagedJournal) as error:
            self._study = None
            return SweepReport(SweepSummary(sweep=number, state="damaged", problem=str(error)))
        valued = sum(each.state == "finished" for each in trials)
        if valued != self._valued:
            self._valued, self._importance = valued, studies.importance(self._study)
        done = sum(each.state in OVER for each in trials)
        ended = "stopped" if done < sweep.trials else "finished"
        summary = SweepSummary(
            sweep=number,
            state="running" if is_active else ended,
            recipe=sweep.base.recipe,
            trials=sweep.trials,
            done=done,
            best=studies.best_of(trials, lowest=sweep.lowest),
        )
        return SweepReport(summary, sweep, tuple(trials), self._importance)


def summaries() -> list[SweepSummary]:
    """Return all sweeps, newest first."""
    return [SweepReader(each).read().summary for each in sweeps.folders()]
