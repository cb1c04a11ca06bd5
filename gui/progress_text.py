"""How far a run is, in words: for the bar at the top and for the title of the window."""

from __future__ import annotations

from PySide6.QtCore import QCoreApplication

from engine.client import RunInfo
from engine.run_state import RunState, RunStatus
from gui import wording
from gui.liveness import Silence

APPLICATION = "Traindeck"


def progress_text(status: RunStatus) -> str:
    """`Epoch 2 / 5 · step 120 / 600`; empty before the data has been counted."""
    if not status.total_steps:
        return ""
    epoch = _tr("Epoch {} / {}").format(max(status.epoch, 1), status.epochs)
    return f"{epoch} · " + _tr("step {:,} / {:,}").format(status.step, status.total_steps)


def time_left(info: RunInfo) -> str:
    """`ETA 00:12:41`; while paused how long it takes from there; empty where nothing is known."""
    seconds = info.status.seconds_left
    if seconds <= 0:
        return ""
    if info.state is RunState.RUNNING:
        return _tr("ETA {}").format(wording.duration(seconds))
    if info.state is RunState.PAUSED:
        return _tr("{} to go").format(wording.duration(seconds))
    return ""


def silence_text(silence: Silence) -> str:
    """`⚠ no word for 12 s`, of the workers alone `⚠ no step for 12 s`: what is shown is so old."""
    seconds = silence.seconds
    age = wording.duration(seconds) if seconds >= 60 else f"{seconds:.0f} s"
    text = _tr("no step for {}") if silence.workers_only else _tr("no word for {}")
    return f"⚠ {text.format(age)}"


def percent(status: RunStatus) -> int | None:
    """How much of its steps a run has done, 0 to 100; only the last step makes it 100."""
    if not status.total_steps:
        return None
    return min(100, 100 * status.step // status.total_steps)


def window_title(info: RunInfo | None, silence: Silence) -> str:
    """`43 % · digits · Traindeck`, as far as there is something to say."""
    if info is None:
        return APPLICATION
    parts = [info.spec.name or info.title, APPLICATION]
    done = percent(info.status)
    if silence.seconds:
        parts.insert(0, _tr("no step") if silence.workers_only else _tr("no word"))
    elif info.state is RunState.RUNNING and done is not None:
        parts.insert(0, f"{done} %")
    else:
        parts.insert(0, str(info.state))
    return " · ".join(parts)


def _tr(text: str) -> str:
    return QCoreApplication.translate("progress", text)
