"""The trials of a sweep in Optuna's journal; the driver alone writes them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from engine.spec.field_info import Setting
from engine.sweeps.ranges import Choices, Range
from engine.sweeps.sweep import JOURNAL, Sweep

if TYPE_CHECKING:
    import optuna

RUN, SLOT, REASON, HELD, RESUMES, FAILED = "run", "slot", "reason", "held", "resumes", "failed"
"""Attributes of a trial: its run, its place, why it has no value, that a stop of the sweep has
ended its run, how often it was resumed, and that it failed as a pruned one: see `fail`."""


LEAST_TRIALS = 10
"""Finished trials from which on it is told what mattered: of fewer, a setting without any effect
often gets a third."""

_GOOD = 0.25
"""The share of the trials that are compared with all. Optuna's tenth is one or two of a usual
sweep, whose values are chance."""

OVER = frozenset({"finished", "pruned", "failed"})
"""The states of trials that are over."""

TRIAL_STATES = OVER | {"waiting", "running", "stopped", "interrupted"}


class DamagedJournal(Exception):
    """The journal of a sweep cannot be read; the text is a sentence."""


class TrialResult(msgspec.Struct, frozen=True):
    """One trial of a sweep."""

    number: int
    run: str
    """The id of its run; empty: it has none yet."""

    state: str
    """`waiting`, `running`, `finished`, `pruned`, `stopped` or `failed`; `interrupted`: the sweep
    is not active, so nobody looks at its run."""

    settings: dict[str, Setting]
    value: float | None
    """The best value of the metric in the run."""

    reason: str = ""


def open_study(folder: Path, sweep: Sweep) -> optuna.Study:
    """Open the study of a sweep, and make it if it is new; for the driver, which alone writes it.

    Raises DamagedJournal, OSError.
    """
    import optuna

    _cut_torn_line(folder / JOURNAL)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna calls some of its parts experimental
        study = optuna.create_study(
            storage=_storage(folder),
            study_name="sweep",
            sampler=_sampler(sweep, sweep.seed),
            pruner=_pruner(sweep),
            direction="minimize" if sweep.lowest else "maximize",
            load_if_exists=True,
        )
        if count := len(study.get_trials(deepcopy=False)):
            # The seed alone would give the values of the first trials again.
            study.sampler = _sampler(sweep, (sweep.seed * _PRIME + count) % 2**32)
        return study


def read_study(folder: Path) -> optuna.Study | None:
    """Open the study of a sweep to read it; None: its driver has not begun.

    Raises DamagedJournal.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    if not (folder / JOURNAL).exists():
        return None
    try:
        return optuna.load_study(study_name="sweep", storage=_storage(folder))
    except KeyError:
        return None


def suggest(trial: optuna.Trial, ranges: dict[str, Range]) -> dict[str, Setting]:
    """Return the values of a trial: new ones, or those that it has already."""
    values: dict[str, Setting] = {}
    for name, each in ranges.items():
        if isinstance(each, Choices):
            chosen = trial.suggest_categorical(name, each.values)
            assert chosen is not None
            values[name] = chosen
        elif each.whole:
            low, high = int(each.low), int(each.high)
            values[name] = trial.suggest_int(name, low, high, log=each.log)
        else:
            values[name] = trial.suggest_float(name, each.low, each.high, log=each.log)
    return values


def fail(study: optuna.Study, trial: optuna.Trial, reason: str, *, is_bad: bool) -> None:
    """End a trial without a value. `is_bad`: its settings may be the cause, such as for a loss that
    is no number.

    Optuna's samplers forget a trial that failed, and try its neighbours again and again; from one
    that was pruned they keep away.
    """
    from optuna.trial import TrialState

    trial.set_user_attr(REASON, reason)
    trial.set_user_attr(FAILED, is_bad)
    state = TrialState.PRUNED if is_bad else TrialState.FAIL
    study.tell(trial.number, state=state, skip_if_finished=True)


def results(study: optuna.Study | None) -> list[TrialResult]:
    """Return the trials by number. Raises DamagedJournal."""
    if study is None:
        return []
    try:
        return [_result(each) for each in study.get_trials(deepcopy=False)]
    except Exception as error:  # Optuna checks nothing of what it reads
        raise DamagedJournal(_DAMAGED.format(error=error)) from error


def best_of(trials: Iterable[TrialResult], *, lowest: bool) -> TrialResult | None:
    """Return the trial with the best value; None if no trial has one. Pruned ones do not count."""
    valued = [each for each in trials if each.value is not None and each.state == "finished"]
    sign = 1 if lowest else -1
    return min(valued, key=lambda each: sign * (each.value or 0.0), default=None)


def importance(study: optuna.Study | None) -> dict[str, float]:
    """Return how much of the differences each setting explains (0 to 1, their sum is 1).

    Empty if there are fewer than LEAST_TRIALS finished trials, or all are alike. A setting that has
    had one value only is left out. By PED-ANOVA (Watanabe and others, 2023), which needs no further
    package.
    """
    import optuna

    if study is None:
        return {}
    complete = (optuna.trial.TrialState.COMPLETE,)
    trials = study.get_trials(deepcopy=False, states=complete)
    if len(trials) < LEAST_TRIALS:
        return {}
    names = sorted({name for trial in trials for name in trial.params})
    varied = [name for name in names if len({trial.params.get(name) for trial in trials}) > 1]
    if not varied:
        return {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            evaluator = optuna.importance.PedAnovaImportanceEvaluator(target_quantile=_GOOD)
            found = optuna.importance.get_param_importances(
                study, evaluator=evaluator, params=varied
            )
        except (ValueError, RuntimeError):  # all alike
            return {}
    return dict(found)


def _result(trial: Any) -> TrialResult:
    state = trial.state.name
    run = str(trial.user_attrs.get(RUN, ""))
    reason = str(trial.user_attrs.get(REASON, ""))
    names = {"COMPLETE": "finished", "PRUNED": "pruned", "FAIL": "failed", "WAITING": "waiting"}
    name = names.get(state, "running" if run else "waiting")
    if name == "running" and trial.user_attrs.get(HELD):
        name = "stopped"
    if name == "pruned" and trial.user_attrs.get(FAILED):
        name = "failed"
    value = trial.value if trial.state.is_finished() and trial.values else None
    if name == "pruned" and trial.intermediate_values:
        value = trial.intermediate_values[max(trial.intermediate_values)]
    return TrialResult(trial.number, run, name, dict(trial.params), value, reason)


def _storage(folder: Path) -> Any:
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return JournalStorage(JournalFileBackend(str(folder / JOURNAL)))
    except Exception as error:  # Optuna checks nothing of what it reads
        text = f"Sweep {folder.name}: {_DAMAGED.format(error=error)}"
        raise DamagedJournal(text) from error


_DAMAGED = "its journal is damaged ({error}); its runs are intact, and have its tag."


def _cut_torn_line(journal: Path) -> None:
    """Remove the end of a line that a power cut has torn: what is appended would join it."""
    if not journal.exists():
        return
    with journal.open("r+b") as file:
        content = file.read()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            file.truncate(whole)


_PRIME = 1_000_003


def _sampler(sweep: Sweep, seed: int) -> Any:
    import optuna

    match sweep.sampler:
        case "random" | "grid":  # the driver names the values of a grid
            return optuna.samplers.RandomSampler(seed=seed)
        case _:
            # Values that are being tried count as bad ones, so that parallel trials differ.
            return optuna.samplers.TPESampler(seed=seed, constant_liar=sweep.parallel > 1)


def _pruner(sweep: Sweep) -> Any:
    import optuna

    match sweep.pruner:
        case "median":
            return optuna.pruners.MedianPruner(n_startup_trials=4)
        case "successive-halving":
            return optuna.pruners.SuccessiveHalvingPruner()
        case _:
            return optuna.pruners.NopPruner()
