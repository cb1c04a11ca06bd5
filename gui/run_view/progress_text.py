"""The progress of a run in words, for the toolbar and the window title."""

from __future__ import annotations

from engine.runs.run_info import RunInfo
from engine.runs.run_state import RunState, RunStatus
from engine.spec import catalog
from engine.spec.run_spec import RunSpec
from engine.system import units
from gui.bridge.liveness import Silence
from gui.style.state_style import state_name, state_sentence, state_text

APPLICATION = "Traindeck"


def progress_text(status: RunStatus) -> str:
    """Return `Epoch 2 / 5 · step 120 / 600`; of a script as much of it as is known.

    Empty until the first step, unless the number of steps is known.
    """
    if not status.total_steps:
        return _unknown_total(status)
    if not status.epochs and not status.epoch:
        return f"Step {status.step:,} / {status.total_steps:,}"
    text = (
        f"Epoch {max(status.epoch, 1)} / {status.epochs} · step {status.step:,} / "
        f"{status.total_steps:,}"
    )
    if not status.epochs:
        text = f"Epoch {max(status.epoch, 1)} · step {status.step:,} / {status.total_steps:,}"
    return text


def short_progress(status: RunStatus) -> str:
    """Return the part of `progress_text` that matters most, for a narrow window: `Epoch 2 / 5`."""
    text = progress_text(status)
    has_epoch = status.epoch or (status.total_steps and status.epochs)
    return _epoch(status) if text and has_epoch else text


def _epoch(status: RunStatus) -> str:
    epoch = max(status.epoch, 1)
    if not status.epochs:
        return f"Epoch {epoch}"
    return f"Epoch {epoch} / {status.epochs}"


def _unknown_total(status: RunStatus) -> str:
    """Return the progress of a script that has not said how many steps there are."""
    if not status.step:
        return ""
    parts = [_epoch(status)] if status.epoch else []
    step = f"step {status.step:,}" if parts else f"Step {status.step:,}"
    return " · ".join([*parts, step])


def status_line(info: RunInfo) -> str:
    """Return the sentence below the window: why the run is in its state, or which state that is;
    while it starts, how many of its workers are ready."""
    ready, begun = info.status.workers_ready, len(info.status.worker_pids)
    if info.state is RunState.STARTING and begun:
        count = max(begun, _ranks(info.spec))  # those of other machines begin later
        return f"Starting: {ready} of {count} workers ready."
    return info.reason or state_sentence(info.state)


def _ranks(spec: RunSpec) -> int:
    try:
        return len(catalog.strategy(spec.strategy).pool(spec.slots))
    except catalog.UnknownName:
        return 0


def time_left(info: RunInfo) -> str:
    """Return `ETA 00:12:41`, in a pause `00:12:41 to go`; empty if the time is unknown."""
    seconds = info.status.seconds_left
    if seconds <= 0:
        return ""
    if info.state is RunState.RUNNING:
        return f"ETA {units.steady_duration(seconds)}"
    if info.state is RunState.PAUSED:
        return f"{units.steady_duration(seconds)} to go"
    return ""


def silence_text(silence: Silence) -> str:
    """Return `⚠ silent for 12 s`, `⚠ no step for 12 s` if only the workers are silent,
    `⚠ no news from gpus for 12 s`, or `⚠ does not answer, halted for 12 s`."""
    seconds = silence.seconds
    age = units.steady_duration(seconds) if seconds >= 60 else f"{seconds:.0f} s"
    text = f"⚠ silent for {age}"
    if silence.workers_only:
        text = f"⚠ no step for {age}"
    elif silence.machine:
        text = f"⚠ no news from {silence.machine} for {age}"
    elif silence.halted:
        text = f"⚠ does not answer, halted for {age}"
    return text


def _short_silence(silence: Silence) -> str:
    if silence.machine:
        return "no news"
    silent = "silent"
    return "no step" if silence.workers_only else silent


def percent(status: RunStatus) -> int | None:
    """Return the finished steps in percent, rounded down; None if the total is unknown."""
    if not status.total_steps:
        return None
    return min(100, 100 * status.step // status.total_steps)


def window_title(info: RunInfo | None, silence: Silence) -> str:
    """Return `43 % · digits · Traindeck`; without a run only the name of the application."""
    if info is None:
        return APPLICATION
    parts = [info.spec.name or info.title, APPLICATION]
    done = percent(info.status)
    if silence.seconds:
        parts.insert(0, _short_silence(silence))
    elif info.state is RunState.RUNNING and done is not None:
        parts.insert(0, f"{done} %")
    else:
        parts.insert(0, state_text(info) if info.spec.is_imported else state_name(info.state))
    return " · ".join(parts)
