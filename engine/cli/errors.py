"""Turns the errors of commands into sentences and exit codes."""

from __future__ import annotations

import io
import os
import sqlite3
import sys
from collections.abc import Callable

from engine.cli.output import Exit, Interrupted, NoAnswer, Refused, printable
from engine.client import CannotStart, CommandFailed, NoSuchRun
from engine.repair.take_over import CannotTakeOver
from engine.spec.catalog import UnknownName

INTERRUPTED = 130
"""The exit code that a shell reports for a program that Ctrl-C ended."""


def report_errors(action: Callable[[], int]) -> int:
    """Run `action`, and return its exit code; print an expected error as sentences."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal may lack characters
    try:
        code = action()
        sys.stdout.flush()
        return code
    except (CannotStart, CannotTakeOver, NoSuchRun, CommandFailed, UnknownName, Refused) as error:
        return _print_error(str(error), Exit.REFUSED)
    except NoAnswer as error:
        return _print_error(str(error), Exit.FAILED)
    except Interrupted as error:
        return _print_error(str(error), INTERRUPTED)
    except BrokenPipeError:
        # The reader has closed the pipe. The interpreter must not flush into it once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.FAILED
    except (sqlite3.Error, OSError) as error:
        return _print_error(f"This could not be done: {error}.", Exit.FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED


def _print_error(text: str, code: int) -> int:
    print(printable(text), file=sys.stderr)
    return code
