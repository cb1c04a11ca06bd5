"""Says why a command has failed: by its exception, its exit code, or the end of its output."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from engine.messages.events import WorkerFailed
from engine.processes.process import signal_name
from engine.script_rank.frames import Failed
from engine.worker.failure_report import LONGEST_MESSAGE, LONGEST_TRACEBACK, is_lost_peer, sendable

_TRACEBACK = "Traceback (most recent call last):"
_FRAME = re.compile(r'^ +File "([^"\n]+)", line (\d+)', re.MULTILINE)
_ERROR = re.compile(r"^(?:\w+\.)*\w+(?::.*)?$")
"""The line of an exception below its frames, such as `torch.OutOfMemoryError: CUDA`."""


def reported_failure(
    rank: int, frame: Failed, code: int, owns: Callable[[Path], bool]
) -> WorkerFailed:
    """Return the event for an exception that the script's process has reported.

    `code` is how the command has ended, `owns` says whether a file is the user's code.
    """
    where = frame.where or _where(frame.traceback, owns)
    return _failed(rank, code, frame.message, where, frame.traceback)


def failure_of_exit(
    rank: int, name: str, code: int, tail: str, owns: Callable[[Path], bool]
) -> WorkerFailed:
    """Return the event for the command `name`, which ended with `code` after the output `tail`.

    The traceback of a Python that reported nothing is found in the output.
    """
    ended = f"{name} ended with exit code {code}"
    if signal := signal_name(code):
        ended = f"{name} was ended by {signal}"
    begin = tail.rfind(_TRACEBACK)
    if begin < 0:
        return _failed(rank, code, f"{ended}.", "", "")
    text = tail[begin:]
    below = [line for line in text.splitlines()[1:] if line and not line.startswith(" ")]
    message = f"{below[0]} ({ended})" if below and _ERROR.match(below[0]) else f"{ended}."
    return _failed(rank, code, message, _where(text, owns), text)


def _failed(rank: int, code: int, message: str, where: str, traceback: str) -> WorkerFailed:
    return WorkerFailed(
        rank=rank,
        message=sendable(message.strip() or "an exception without a text", LONGEST_MESSAGE),
        where=sendable(where, LONGEST_MESSAGE),
        traceback=sendable(traceback, LONGEST_TRACEBACK),
        lost_peer=is_lost_peer(message),
        exit_code=code,
    )


def _where(traceback: str, owns: Callable[[Path], bool]) -> str:
    """Return file and line of the innermost frame in the user's code; empty if there is none."""
    frames = _FRAME.findall(traceback)
    own = [frame for frame in frames if owns(Path(frame[0]))]
    return ":".join(own[-1]) if own else ""
