"""The standard input, output and error of a process, which may be closed, full or replaced."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import Any

from engine.files.disk_errors import disk_problem


class _LossyFile(io.FileIO):
    """A file that drops the data for which a full disk has no room."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if not disk_problem(error):
                raise
            return len(data)


def lossy_stream(descriptor: int, encoding: str = "utf-8") -> io.TextIOWrapper:
    """Return a stream to `descriptor` that drops lines, without an error, on a full disk."""
    file = _LossyFile(descriptor, "w", closefd=False)
    return io.TextIOWrapper(file, encoding, errors="backslashreplace", write_through=True)


class _LostFile(io.FileIO):
    """The null device in the place of a closed standard output, which knows what it got."""

    has_lost = False

    def write(self, data: Any) -> int:
        _LostFile.has_lost = True
        return super().write(data)


def output_was_lost() -> bool:
    """Whether something was printed although the caller has closed the standard output."""
    return _LostFile.has_lost


def open_closed_streams() -> None:
    """Connect each standard stream that the caller has closed with the null device.

    Otherwise the next file that this process opens would be its standard output, and get what is
    printed. Called before any file is opened.
    """
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is not None:
            continue
        null = os.open(os.devnull, os.O_RDWR)
        if null != descriptor:
            os.dup2(null, descriptor)
            os.close(null)
        kind = _LostFile if name == "stdout" else io.FileIO
        file = kind(descriptor, "w" if descriptor else "r", closefd=False)
        stream: Any = io.TextIOWrapper(io.BufferedReader(file) if not descriptor else file, "utf-8")
        setattr(sys, name, stream)


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
