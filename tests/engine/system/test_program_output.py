"""A program is asked for what it prints, and never for longer than is allowed."""

from __future__ import annotations

import sys

import pytest

from engine.system.cancelled import Cancelled
from engine.system.program_output import TooLate, output_of

pytestmark = pytest.mark.usefixtures("processes")

SECONDS = 120.0


def python(code: str) -> list[str]:
    return [sys.executable, "-c", f"import os, sys, time, subprocess\n{code}"]


def test_what_is_printed_and_said_and_how_it_ended() -> None:
    found = output_of(python("print(1); sys.exit('no')"), seconds=SECONDS)
    assert (found.code, found.printed, found.said) == (1, b"1\n", b"no\n")


def test_a_program_that_prints_more_than_is_wanted_is_ended() -> None:
    code = "while True: os.write(1, b'x' * 4096)"
    found = output_of(python(code), seconds=SECONDS, most=10)
    assert (found.code, found.printed) == (0, b"x" * 11)


def test_a_program_that_takes_too_long_is_ended_with_what_it_has_said() -> None:
    code = "os.write(2, b'begun'); time.sleep(600)"
    with pytest.raises(TooLate) as raised:
        output_of(python(code), seconds=5.0)
    assert raised.value.said in (b"begun", b"")  # nothing yet on a slow machine


def test_a_program_can_be_stopped() -> None:
    with pytest.raises(Cancelled):
        output_of(python("time.sleep(600)"), seconds=SECONDS, is_cancelled=lambda: True)


def test_what_it_has_started_is_not_waited_for() -> None:
    code = "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])"
    assert output_of(python(code), seconds=SECONDS).code == 0
