"""The state of the connection to a machine in words, and its mark."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from PySide6.QtGui import QPixmap

from engine.runs.run_state import RunState
from gui.style.state_marks import state_pixmap
from gui.style.theme import Theme

if TYPE_CHECKING:
    from engine.remote.connection import LinkStatus


def short_text(status: LinkStatus | None, gpus: int) -> str:
    """Return the state in few words; `gpus`: how many the machine has, as far as is known."""
    if status is None:
        return "not connected"
    match status.state.value:
        case "connected":
            parts = ["ssh"]
            if status.quiet:
                parts.append(f"no news for {round(status.quiet)} s")
            elif status.round_trip is not None:
                parts.append(f"{max(1, round(1000 * status.round_trip))} ms")
            if gpus:
                text = "1 GPU" if gpus == 1 else ""
                parts.append(text or f"{gpus} GPUs")
            return " · ".join(parts)
        case "waiting":
            seconds = max(0, math.ceil(status.next_try - time.time()))
            return f"next try in {seconds} s"
        case "asking":
            return "asks for an answer"
        case "failed":
            return "failed"
        case _:
            return "connecting…"


def sentence(status: LinkStatus | None) -> str:
    """Return why a machine is not connected, and what to do; empty: it is, or is not wanted."""
    if status is None or status.state.value in ("connected", "asking"):
        return ""
    return status.sentence


def button_text(status: LinkStatus | None) -> str:
    """Return what can be done about the state; empty: nothing."""
    if status is None:
        return "Connect"
    match status.state.value:
        case "waiting":
            return "Try now"
        case "failed":
            return "Try again"
        case "asking":
            return "Answer…"
        case _:
            return ""


def mark(status: LinkStatus | None, theme: Theme) -> QPixmap:
    """Return the mark of the state: each has a shape of its own."""
    if status is None:
        return state_pixmap(RunState.ELSEWHERE, theme.muted)
    if status.quiet:
        return state_pixmap(RunState.RUNNING, theme.warn)
    shape, colour = {
        "connected": (RunState.RUNNING, theme.ok),
        "connecting": (RunState.STARTING, theme.accent),
        "waiting": (RunState.QUEUED, theme.warn),
        "asking": (RunState.INTERRUPTED, theme.warn),
        "failed": (RunState.FAILED, theme.bad),
        "closed": (RunState.ELSEWHERE, theme.muted),
    }[status.state.value]
    return state_pixmap(shape, colour)
