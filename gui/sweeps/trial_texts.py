"""The words and marks of trials and sweeps."""

from __future__ import annotations

from engine.runs.run_state import RunState
from engine.sweeps.report import SweepSummary
from engine.sweeps.study import TrialResult
from gui.bridge.machines.remote_sweeps import NOT_CONNECTED
from gui.style.theme import Theme
from gui.sweeps.axes import short

_MARKS = {
    "waiting": RunState.QUEUED,
    "running": RunState.RUNNING,
    "finished": RunState.FINISHED,
    "pruned": RunState.STOPPED,
    "stopped": RunState.STOPPED,
    "interrupted": RunState.INTERRUPTED,
    "failed": RunState.FAILED,
    "damaged": RunState.INTERRUPTED,
    NOT_CONNECTED: RunState.ELSEWHERE,
}


def mark_of(state: str) -> RunState:
    """Return the state of a run whose mark a trial or a sweep has."""
    return _MARKS[state]


def colour_of(state: str, theme: Theme) -> str:
    """Return the colour of the state of a trial or a sweep."""
    return {
        "waiting": theme.accent,
        "running": theme.ok,
        "finished": theme.done,
        "interrupted": theme.lost,
        "failed": theme.bad,
        "damaged": theme.bad,
    }.get(state, theme.muted)


def state_word(state: str) -> str:
    """Return the name of the state of a trial or a sweep."""
    return {
        "waiting": "waiting",
        "running": "running",
        "finished": "finished",
        "pruned": "pruned",
        "stopped": "stopped",
        "interrupted": "interrupted",
        "failed": "failed",
        "damaged": "damaged",
        NOT_CONNECTED: "not connected",
    }[state]


def progress_of(summary: SweepSummary) -> str:
    """Return how far a sweep is: `running, 20 of 40`."""
    if summary.problem:
        return state_word(summary.state)
    return f"{state_word(summary.state)}, {summary.done:,} of {summary.trials:,}"


def describe(trial: TrialResult) -> str:
    """Return one line that names a trial: its run, its settings and its result."""
    run = f"run {trial.run}" if trial.run else ""
    values = [f"{name} {short(value)}" for name, value in trial.settings.items()]
    result = short(trial.value) if trial.value is not None else state_word(trial.state)
    return " · ".join(filter(None, (run, *values, f"→ {result}")))
