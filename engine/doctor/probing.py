"""Runs a probe in a process of its own, which ends with its time limit or with this process."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from engine.environments.activation import activated
from engine.system.program_output import TooLate, output_of

PROBE = Path(__file__).with_name("probe.py")


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
        answer = output_of(
            [python or sys.executable, str(PROBE), probe, *arguments],
            seconds=seconds,
            is_cancelled=is_cancelled,
            env=environment,
            stdin=ours,
        )
    except OSError as error:
        return Answer(None, f"could not be started: {error}")
    except TooLate as error:
        last = _last_line(error.said)
        text = f"did not end within {seconds:g} s"
        return Answer(None, f"{text}: {last}" if last else text, is_late=True)
    finally:
        os.close(ours)
        os.close(theirs)
    with contextlib.suppress(ValueError):
        lines = answer.printed.decode("utf-8", "replace").strip()
        return Answer(json.loads(lines.rpartition("\n")[2]))
    return Answer(None, _ending(answer.code, answer.said))


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
