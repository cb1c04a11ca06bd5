"""`python -m engine.sweeps.driver FOLDER` drives one sweep: it starts its runs and looks at them.

Everything that it knows is in Optuna's journal, in the runs and their tags: after its death,
another driver goes on, and counts no trial twice.
"""

from __future__ import annotations

import logging
import math
import sqlite3
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from engine import client
from engine.messages.commands import Stop
from engine.messages.events import RecipeVersion
from engine.runs.run_info import NoSuchRun, RunInfo
from engine.runs.run_notes import TRIAL_TAG, UnreadableNotes, number_in, read_notes
from engine.runs.run_state import RunState
from engine.runs.store.store_reader import RunReader
from engine.spec.recipe_copy import older_copies
from engine.spec.run_spec import FIELDS, RunSpec
from engine.sweeps import sweep as sweeps
from engine.sweeps.ranges import grid_point
from engine.sweeps.study import (
    HELD,
    REASON,
    RESUMES,
    RUN,
    SLOT,
    DamagedJournal,
    fail,
    open_study,
    suggest,
)
from engine.sweeps.sweep import JOURNAL, LOCK, STOP, Sweep, tag_of
from engine.system import paths

if TYPE_CHECKING:
    import optuna

_log = logging.getLogger(__name__)

LOOK_SECONDS = 0.25
MOST_RESUMES = 3
"""How often a run that was interrupted, such as by a power cut, is resumed."""

_DATA_SETS = ("train/", "validation/")
MOST_REFUSALS = 3
"""Trials in turn that cannot be started, or have no such metric, after which the sweep ends."""


_DECIDING = ("Training", "Optimizer", "Early stopping and limits")
_DECISIVE = (
    *("recipe", "strategy", "settings", "precision", "on_nan"),
    *(
        name
        for name, field in FIELDS.items()
        # The supervisor itself may accumulate more, which gives the same result.
        if field.group in _DECIDING and name != "accumulation"
    ),
)
"""Fields that decide what a run of a sweep results in."""


class NoValue(Exception):
    """Why a run that has finished has no value, as a sentence."""


class NeverFinite(NoValue):
    """Its metric was no number at any step."""


class NoMetric(NoValue):
    """It has logged no such metric: no other run of this recipe will."""


class Driver:
    """One sweep. Its folder's lock is held."""

    def __init__(self, folder: Path, sweep: Sweep, study: optuna.Study) -> None:
        self._folder = folder
        self._sweep = sweep
        self._study = study
        self._active: dict[int, str] = {}
        """The runs of trials that are not over, by the number of the trial."""

        self._slots: dict[int, int] = {}
        self._series = ""
        """Which series the runs that are over have; empty: none is."""

        self._pruned: set[int] = set()
        self._asked_to_stop: set[int] = set()
        self._unstarted: list[int] = []
        """Trials that an earlier driver has left without a run."""

        self._has_started = False
        self._refused: dict[int, str] = {}
        """Trials in turn that could not be started, and why. Whether that is due to their settings
        is known once another one starts: until then they have not failed."""

        self._without_metric: list[str] = []
        """What runs that finished in turn have logged in the place of the metric."""

        self._noted = ""
        self._pause = threading.Event()

    def run(self) -> None:
        """Drive the sweep until all its trials are over, or it is to stop."""
        sweeps.note_reason(self._folder, "")  # that of an earlier driver counts no more
        self._take_up()
        while True:
            is_stopping = (self._folder / STOP).exists()
            for number in list(self._active):
                self._look(number, is_stopping=is_stopping)
            if not is_stopping:
                self._start_more()
            self._note_reason()
            if not self._active and (is_stopping or self._is_done):
                return
            self._pause.wait(LOOK_SECONDS)

    @property
    def _is_done(self) -> bool:
        trials = self._study.get_trials(deepcopy=False)
        over = sum(each.state.is_finished() for each in trials)
        return over >= self._sweep.trials or bool(self._why_no_more)

    @property
    def _why_no_more(self) -> str:
        """Why no more trials are started, as a sentence; empty: they are."""
        if len(self._refused) >= MOST_REFUSALS:
            what, reasons = "trials in turn could not be started", list(self._refused.values())
        elif len(self._without_metric) >= MOST_REFUSALS:
            what, reasons = "runs in turn have not logged the metric", self._without_metric
        else:
            return ""
        last = reasons[-1].replace("\n", " ")
        return f"{len(reasons)} {what}, so it starts no more. The last reason: {last}"

    def _note_reason(self) -> None:
        if self._noted != (reason := self._why_no_more):
            self._noted = reason
            sweeps.note_reason(self._folder, reason)

    def _take_up(self) -> None:
        """Go on with the trials that an earlier driver has left."""
        started = self._runs_by_trial()
        for frozen in self._study.get_trials(deepcopy=False):
            if frozen.state.is_finished() or frozen.state.name == "WAITING":
                continue
            trial = self._trial(frozen.number)
            run_id = str(frozen.user_attrs.get(RUN, "")) or started.get(frozen.number, "")
            if run_id:
                self._follow(trial, run_id)
            else:
                self._unstarted.append(frozen.number)

    def _follow(self, trial: optuna.Trial, run_id: str) -> None:
        trial.set_user_attr(RUN, run_id)
        slot = trial.user_attrs.get(SLOT)
        self._slots[trial.number] = self._free_slot() if slot is None else int(slot)
        self._active[trial.number] = run_id
        if trial.user_attrs.get(HELD):
            trial.set_user_attr(HELD, False)
            self._resume(trial.number)

    def _runs_by_trial(self) -> dict[int, str]:
        """Return the runs of this sweep by the number of their trial, also those that the journal
        does not know yet."""
        found = {}
        for run_id in paths.run_ids():
            try:
                tags = read_notes(paths.run_folder(run_id)).tags
            except UnreadableNotes:
                continue
            if tag_of(self._folder.name) in tags:
                number = number_in(tags, TRIAL_TAG)
                found.update({number: run_id} if number is not None else {})
        return found

    def _start_more(self) -> None:
        while len(self._active) < self._sweep.parallel and not self._why_no_more:
            trials = self._study.get_trials(deepcopy=False)
            if sum(each.state.name != "WAITING" for each in trials) >= self._sweep.trials:
                if not self._unstarted:
                    self._fail_refused()
                    return
                self._start(self._trial(self._unstarted.pop(0)))
                continue
            is_waiting = any(each.state.name == "WAITING" for each in trials)
            if self._sweep.sampler == "grid" and not is_waiting:
                self._study.enqueue_trial(grid_point(self._sweep.ranges, len(trials)))
            self._start(self._study.ask())

    def _start(self, trial: optuna.Trial) -> None:
        values = suggest(trial, self._sweep.ranges)
        slot = self._free_slot()
        trial.set_user_attr(SLOT, slot)
        spec = self._sweep.spec_of(values, slot)
        try:
            tags = [tag_of(self._folder.name), f"{TRIAL_TAG}{trial.number}"]
            run_id = client.start(spec, tags, copied_in=self._folder)
        except client.CannotStart as error:
            if self._has_started and trial.user_attrs.get(REASON):
                self._fail(trial.number, str(error))  # for a second time, and others start
                return
            self._refused[trial.number] = str(error)
            trial.set_user_attr(REASON, str(error))
            return
        self._has_started = True
        self._fail_refused()
        if trial.user_attrs.get(REASON):
            trial.set_user_attr(REASON, "")  # it was refused before
        trial.set_user_attr(RUN, run_id)
        self._slots[trial.number] = slot
        self._active[trial.number] = run_id
        _log.info("trial %d: run %s with %s", trial.number, run_id, values)

    def _fail_refused(self) -> None:
        """Others start, or there are no others: those that were refused have failed."""
        for number, reason in self._refused.items():
            self._fail(number, reason)
        self._refused.clear()

    def _free_slot(self) -> int:
        used = {self._slots[number] for number in self._active}
        return next(slot for slot in range(len(used) + 1) if slot not in used)

    def _look(self, number: int, *, is_stopping: bool) -> None:
        try:
            info = client.get_run(self._active[number])
        except NoSuchRun:
            self._end(number)
            self._fail(number, "Its run was deleted.")
            return
        if changes := self._changes(number, info):
            self._end(number)
            self._fail(number, f"No trial any more: its run was resumed with other {changes}.")
            return
        if info.state.is_over:
            self._settle(number, info, is_stopping=is_stopping)
        elif is_stopping:
            self._stop(number)
        elif info.state is RunState.RUNNING and number not in self._pruned:
            self._prune(number, info)

    def _settle(self, number: int, info: RunInfo, *, is_stopping: bool) -> None:
        import optuna

        if info.state is RunState.INTERRUPTED:
            if is_stopping:
                self._hold(number)
            else:
                self._resume(number)
            return
        if info.state is RunState.STOPPED and number in self._pruned:
            self._end(number)
            self._study.tell(number, state=optuna.trial.TrialState.PRUNED, skip_if_finished=True)
            return
        if info.state is RunState.STOPPED and (is_stopping or number in self._asked_to_stop):
            self._hold(number)
            return
        self._end(number)
        if info.state is not RunState.FINISHED:
            is_bad = info.state is RunState.FAILED
            self._fail(number, info.reason or f"The run is {info.state}.", is_bad=is_bad)
            return
        try:
            value = self._value(info)
        except NoValue as error:
            if isinstance(error, NoMetric):
                self._without_metric.append(str(error))
            self._fail(number, str(error), is_bad=isinstance(error, NeverFinite))
        else:
            self._without_metric.clear()
            self._study.tell(number, value, skip_if_finished=True)

    def _hold(self, number: int) -> None:
        """Note that the run ended because the sweep did, and goes on with it."""
        self._trial(number).set_user_attr(HELD, True)
        self._end(number)

    def _end(self, number: int) -> None:
        self._active.pop(number)
        self._slots.pop(number, None)
        self._asked_to_stop.discard(number)

    def _fail(self, number: int, reason: str, *, is_bad: bool = False) -> None:
        _log.info("trial %d fails: %s", number, reason)
        fail(self._study, self._trial(number), reason, is_bad=is_bad)

    def _resume(self, number: int) -> None:
        trial, run_id = self._trial(number), self._active[number]
        done = int(trial.user_attrs.get(RESUMES, 0)) + 1
        trial.set_user_attr(RESUMES, done)
        try:
            info = client.get_run(run_id)
            is_wanted = info.state.is_over and info.state is not RunState.FINISHED
            if not is_wanted or self._changes(number, info):
                return
            if done > MOST_RESUMES:
                raise client.CommandFailed("Its run was interrupted again and again.")
            client.resume(run_id, recipe=RecipeVersion.AS_IT_WAS)
        except (client.CannotStart, client.CommandFailed, NoSuchRun) as error:
            self._end(number)
            self._fail(number, str(error))

    def _changes(self, number: int, info: RunInfo) -> str:
        """Return what of a run is no longer as its trial began; empty: nothing that decides."""
        begun = self._sweep.spec_of(self._trial(number).params, 0)
        found = [each for each in _DECISIVE if _text(begun, each) != _text(info.spec, each)]
        if older_copies(info.folder):
            found.append("recipe")
        return ", ".join(found)

    def _stop(self, number: int) -> None:
        if number in self._asked_to_stop:
            return
        self._asked_to_stop.add(number)
        try:
            client.send(self._active[number], Stop())
        except client.CommandFailed as error:  # it ends at this moment, or is asked once more
            _log.info("trial %d does not take a Stop: %s", number, error)
            self._asked_to_stop.discard(number)

    def _prune(self, number: int, info: RunInfo) -> None:
        """Stop a run that is worse than the others were, if the sweep prunes."""
        if self._sweep.pruner == "none":
            return
        trial = self._trial(number)
        known = self._study.get_trials(deepcopy=False)[number].intermediate_values
        for step, value in self._values(info):
            if step not in known and math.isfinite(value):
                trial.report(value, step)
        if trial.should_prune():
            self._pruned.add(number)
            self._stop(number)

    def _values(self, info: RunInfo) -> list[tuple[int, float]]:
        try:
            with RunReader(info.folder) as reader:
                known = reader.counts()
                series = self._sweep.series(known, is_over=self._series in known)
                points = reader.history(series)
        except (OSError, sqlite3.Error):
            return []
        return [
            (int(step), float(value)) for step, value in zip(points.step, points.value, strict=True)
        ]

    def _value(self, info: RunInfo) -> float:
        """Return the best value of a run that has finished. Raises NoValue."""
        try:
            with RunReader(info.folder) as reader:
                known = reader.counts()
                self._series = self._sweep.series(known)
                best = reader.best(self._series, lowest=self._sweep.lowest)
        except (OSError, sqlite3.Error) as error:
            raise NoValue(f"The curves of its run cannot be read: {error}.") from error
        if best:
            return best[0]
        if self._series in known:
            raise NeverFinite(f"{self._series} was never a finite number.")
        names = ", ".join(sorted(each for each in known if each.startswith(_DATA_SETS)))
        raise NoMetric(f"The run has logged no {self._series}. There are: {names or 'none'}.")

    def _trial(self, number: int) -> optuna.Trial:
        import optuna

        frozen = self._study.get_trials(deepcopy=False)[number]
        return optuna.trial.Trial(self._study, frozen._trial_id)


def _text(spec: RunSpec, field: str) -> str:
    value = getattr(spec, field)
    return repr(sorted(value.items()) if field == "settings" else value)


def main(folder: Path) -> int:
    """Drive the sweep in `folder`; return the exit code."""
    lock_of_driver = FileLock(folder / LOCK, mode=0o600)
    try:
        lock_of_driver.acquire(timeout=0)
    except Timeout:
        print(f"Sweep {folder.name} is active already.", file=sys.stderr)
        return 1
    for lock in folder.glob(f"{JOURNAL}.lock*"):
        lock.unlink(missing_ok=True)  # of a driver that was killed: only one drives
    try:
        sweep = sweeps.read(folder)
        Driver(folder, sweep, open_study(folder, sweep)).run()
    except (sweeps.NoSuchSweep, DamagedJournal) as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:  # above all of the journal, on a full disk
        text = f"Its process has ended: {error}. Runs that train go on, and count after a resume."
        sweeps.note_reason(folder, text)
        print(f"Sweep {folder.name}: {text}", file=sys.stderr)
        return 1
    lock_of_driver.release()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
