"""Where text for people and JSON for programs goes."""

from __future__ import annotations

import json
import math
import sys
from datetime import datetime
from enum import IntEnum
from typing import Any

import msgspec
from rich.console import Console

from engine.client import RunInfo
from engine.runs.run_state import RunState

_WIDTH_OF_A_PIPE = 200
"""Characters a line where no terminal says how wide it is: nobody wants a cut table in a file."""

STATE_STYLES = {
    RunState.RUNNING: "green",
    RunState.FINISHED: "bold green",
    RunState.FAILED: "bold red",
    RunState.INTERRUPTED: "bold red",
    RunState.STOPPED: "yellow",
    RunState.STOPPING: "yellow",
    RunState.PAUSED: "yellow",
    RunState.QUEUED: "cyan",
}


class Exit(IntEnum):
    """Exit codes of the command line."""

    DONE = 0
    FAILED = 1
    """The run failed or was interrupted, or did not answer."""

    REFUSED = 2
    """Bad usage, an unknown run, or a run that cannot be started: nothing was done."""

    STOPPED = 3
    """The run was stopped before its last epoch."""


class Refused(Exception):
    """What was asked makes no sense here; the text is a sentence."""


class NoAnswer(Exception):
    """The run ended or did not answer in time; the text is a sentence."""


def out() -> Console:
    """Standard output: results."""
    return _console(stderr=False)


def err() -> Console:
    """Standard error: progress and complaints."""
    return _console(stderr=True)


def _console(stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else _WIDTH_OF_A_PIPE
    return Console(stderr=stderr, width=width, markup=False, highlight=False, emoji=False)


def print_json(value: object) -> None:
    """One line of strict JSON on standard output; NaN and infinities become null."""
    strict = msgspec.json.decode(msgspec.json.encode(value))
    sys.stdout.write(json.dumps(strict) + "\n")  # ASCII, whatever the terminal's encoding is
    sys.stdout.flush()


def run_object(info: RunInfo) -> dict[str, Any]:
    """What `--json` says of a run."""
    return {
        "id": info.id,
        "state": str(info.state),
        "reason": info.reason,
        "epoch": info.status.epoch,
        "step": info.status.step,
        "metrics": info.status.metrics,
        "run_dir": str(info.folder),
    }


def number(value: float) -> str:
    """A metric, to four significant digits."""
    return f"{value:.4g}"


def percent(value: float | None) -> str:
    """Such as `93 %`; a dash where the driver does not say."""
    return "–" if value is None else f"{value:.0f} %"


def byte_count(value: int | None) -> str:
    """Such as `30.0 GiB`; a dash where nobody says."""
    if value is None:
        return "–"
    size = float(value)
    for unit in ("B", "KiB", "MiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def duration(seconds: float) -> str:
    """Such as `0:07` or `1:02:03`."""
    if not math.isfinite(seconds) or seconds < 0:
        return "–"
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def moment(seconds: float) -> str:
    """A time of this machine's clock, given in seconds since the epoch."""
    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S") if seconds else "–"
