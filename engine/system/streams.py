"""The standard output and error of a process in which other people's code runs."""

from __future__ import annotations

import contextlib
import os
import sys


def flush_output() -> None:
    """Flush standard output and standard error, or what a recipe has put in their place.

    That may be any object, so the process's own standard error says what could not be flushed.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name, None)
        if stream is None:
            continue
        try:
            stream.flush()
        except BaseException as error:  # an exit of the recipe's object is no exit of the process
            write_error(f"sys.{name} could not be flushed: {type(error).__name__}\n")


def write_error(text: str) -> None:
    """Write `text` to the process's own standard error; a full disk loses it."""
    with contextlib.suppress(OSError):
        os.write(2, text.encode(errors="backslashreplace"))
