"""Runs a probe in a process of its own, which ends with its time limit or with this process."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from engine.environments.activation import activated
from engine.processes.process import end_group
from engine.system.cancelled import Cancelled

PROBE = Path(__file__).with_name("probe.py")
_POLL = 0.1
_END_SECONDS = 0.5
"""Time for killed processes to end: one that hangs in the driver does not."""


class Answer(NamedTuple):
    """What a probe has found."""

    facts: Any
    """None if there are none; `problem` says why."""

    problem: str = ""
    """Such as `did not end within 30 s`: how the process ended, without a subject."""

    is_late: bool = False
    """Whether the time limit ended it."""


def ask(
    probe: str,
    *arguments: str,
    seconds: float,
    python: str = "",
    variables: Mapping[str, str] | None = None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> Answer:
    """Return what the probe finds with the Python at the path `python`; empty: with this one.

    `variables` are added to the environment. Raises Cancelled once `is_cancelled`
    returns True.
    """
    environment = activated(os.environ, python) | dict(variables or {})
    ours, theirs = os.pipe()  # it closes when this process ends, however it ends
    try:
        process = subprocess.Popen(
            [python or sys.executable, str(PROBE), probe, *arguments],
            env=environment,
            stdin=ours,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        return _wait(process, seconds, is_cancelled)
    except OSError as error:
        return Answer(None, f"could not be started: {error}")
    finally:
        os.close(ours)
        os.close(theirs)


def _wait(
    process: subprocess.Popen[bytes], seconds: float, is_cancelled: Callable[[], bool]
) -> Answer:
    ends_at = time.monotonic() + seconds
    while True:
        try:
            printed, said = process.communicate(timeout=_POLL)
            break
        except subprocess.TimeoutExpired:
            is_late = time.monotonic() > ends_at
            stops = is_cancelled()
            if is_late or stops:
                said = _kill(process)
            if stops:
                raise Cancelled from None
            if is_late:
                last = _last_line(said)
                text = f"did not end within {seconds:g} s"
                return Answer(None, f"{text}: {last}" if last else text, is_late=True)
    with contextlib.suppress(ValueError):
        return Answer(json.loads(printed.decode("utf-8", "replace").strip().rpartition("\n")[2]))
    return Answer(None, _ending(process.returncode, said))


def _kill(process: subprocess.Popen[bytes]) -> bytes:
    """Kill the probe and what it has started; return what it has said."""
    end_group(process, kill=True)
    try:
        return process.communicate(timeout=_END_SECONDS)[1]
    except subprocess.TimeoutExpired as error:
        process.returncode = -9  # Popen must not warn about a process that still runs
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
        return error.stderr or b""


def _ending(code: int, said: bytes) -> str:
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"was ended by {signal.Signals(-code).name}"
    last = _last_line(said)
    if code == 0:  # a library has ended the process: what it said is no error
        return "ended the process, without an error" + (f"; it said last: {last}" if last else "")
    return f"failed: {last or f'exit code {code}'}"


def _last_line(said: bytes) -> str:
    lines = said.decode("utf-8", "replace").strip().splitlines()
    return lines[-1].strip()[:400] if lines else ""
