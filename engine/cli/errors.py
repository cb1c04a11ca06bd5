"""Turns what can go wrong on the command line into sentences and exit codes."""

from __future__ import annotations

import io
import os
import sqlite3
import sys
from collections.abc import Callable

from engine.cli.output import Exit, NoAnswer, Refused
from engine.client import CannotStart, CommandFailed, NoSuchRun
from engine.spec.catalog import UnknownName

INTERRUPTED = 130
"""What a shell reports for a program that Ctrl-C ended."""


def guarded(action: Callable[[], int]) -> int:
    """Run `action`; an error for a person is printed on standard error, one sentence a line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal may not know every character
    try:
        code = action()
        sys.stdout.flush()
        return code
    except (CannotStart, NoSuchRun, CommandFailed, UnknownName, Refused) as error:
        return _complain(str(error), Exit.REFUSED)
    except NoAnswer as error:
        return _complain(str(error), Exit.FAILED)
    except BrokenPipeError:
        # Whoever read this has seen enough; keep the interpreter from flushing into the same pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.FAILED
    except (sqlite3.Error, OSError) as error:
        return _complain(f"This could not be done: {error}.", Exit.FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED


def _complain(text: str, code: Exit) -> Exit:
    print(text, file=sys.stderr)
    return code
