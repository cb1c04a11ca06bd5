"""Turns the errors of commands into sentences and exit codes."""

from __future__ import annotations

import contextlib
import io
import os
import sqlite3
import sys
from collections.abc import Callable

from engine.cli.output import (
    Exit,
    Interrupted,
    Refused,
    Unanswered,
    error_as_json,
    print_json,
    printable,
    refusal_as_json,
)
from engine.client import CannotStart
from engine.files.ownership import NotPrivate
from engine.interface import values
from engine.interface.failures import known_exceptions
from engine.interface.local_watches import NoStore
from engine.scripts.secrets import redacted, secret_values
from engine.spec.validation import Problem
from engine.system.paths import UnusableHome


def report_errors(action: Callable[[], int], *, json: bool = False) -> int:
    """Run `action`, and return its exit code; print an expected error as sentences.

    With `json`, standard output says the same, as its last line.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal may lack characters
    try:
        code = action()
        sys.stdout.flush()
        return code
    except (CannotStart, Refused) as error:
        return _print_refusal(error, json=json)
    except Unanswered as error:
        return _print_end("failed", str(error), Exit.FAILED, json=json and not error.is_printed)
    except (values.NoAnswer, NoStore) as error:
        return _print_end("failed", str(error), Exit.FAILED, json=json)
    except Interrupted as error:
        return _print_end("interrupted", str(error), Exit.INTERRUPTED, json=json)
    except BrokenPipeError:
        _leave_output()
        return Exit.UNREAD
    except (sqlite3.Error, OSError) as error:
        is_sentence = isinstance(error, UnusableHome | NotPrivate)
        text = str(error) if is_sentence else f"This could not be done: {error}."
        code = _print_end("failed", text, Exit.FAILED, json=json)
        try:
            sys.stdout.flush()
        except OSError:  # it was standard output that could not be written
            _leave_output()
        return code
    except Exception as error:
        if not isinstance(error, tuple(known_exceptions().values())):
            raise
        return _print_refusal(error, json=json)
    except KeyboardInterrupt:
        text = "The command was interrupted."
        return _print_end("interrupted", text, Exit.INTERRUPTED, json=json)


def _print_refusal(error: Exception, *, json: bool) -> int:
    found = error.problems if isinstance(error, CannotStart) else [Problem("", str(error))]
    if json:
        shown = [Problem(each.field, _without_secrets(each.text)) for each in found]
        print_json(refusal_as_json(shown))
    return _print_error(str(error), Exit.REFUSED)


def _leave_output() -> None:
    """Write to the null device from now on: the interpreter flushes once more when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print_end(state: str, text: str, code: int, *, json: bool) -> int:
    if json:
        with contextlib.suppress(OSError):  # it may be standard output that cannot be written
            print_json(error_as_json(state, _without_secrets(text)))
    return _print_error(text, code)


def _print_error(text: str, code: int) -> int:
    print(printable(_without_secrets(text)), file=sys.stderr)
    return code


def _without_secrets(text: str) -> str:
    return redacted(text, secret_values(os.environ))
