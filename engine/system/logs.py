"""The log switch: writes what this process logs to a file of its own, once a level is chosen.

Only the loggers of our packages are changed: those of recipes and frameworks stay as they are.
Without a level there is no file, and only warnings are printed.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from logging.handlers import RotatingFileHandler
from pathlib import Path

from engine.system import paths

LEVEL_VARIABLE = "TRAINDECK_LOG"
"""The level, for this process and those that it starts."""

FOLDER_VARIABLE = "TRAINDECK_LOG_FOLDER"
"""Where a process that belongs to no run, such as a telemetry helper, puts its file."""

LEVELS = ("debug", "info", "warning", "error")
PACKAGES = ("engine", "gui", "tools")
LARGEST_FILE = 5 * 2**20
"""Bytes; then the file gets the ending `.1`, and a new one begins."""

OLD_FILES = 2
_FORMAT = "%(asctime)s.%(msecs)03d {process} %(levelname)-7s %(name)s: %(message)s"


class _File(RotatingFileHandler):
    """A log file that loses what the disk does not take: logging must never stop a run."""

    def handleError(self, record: logging.LogRecord) -> None:
        pass


def level_number(name: str) -> int:
    """Return the number of the level `name`. Raises ValueError, with a sentence."""
    if name.lower() not in LEVELS:
        raise ValueError(f"There is no log level {name!r}: choose one of {', '.join(LEVELS)}.")
    return logging.getLevelNamesMapping()[name.upper()]


def start(process: str, folder: Path | None = None, level: str = "") -> None:
    """Log what happens in this process, called `process`, to a file in `folder`, if that is wanted.

    `level` is one of LEVELS; by default, that of the environment; without one, nothing is logged.
    Processes that this one starts do the same. By default the folder is the one that the parent
    process names, else `logs` in the data folder. Raises ValueError for a level that is none.
    """
    level = level or os.environ.get(LEVEL_VARIABLE, "")
    stop()
    if not level:
        return
    number = level_number(level)
    os.environ[LEVEL_VARIABLE] = level
    folder = folder or Path(os.environ.get(FOLDER_VARIABLE) or paths.home() / "logs")
    os.environ[FOLDER_VARIABLE] = str(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = _File(folder / f"debug-{process}.log", "a", LARGEST_FILE, OLD_FILES, "utf-8")
    except OSError as error:
        print(f"No log is written: {error}.", file=sys.stderr)
        return
    name = f"{process}[{os.getpid()}]"
    file.setFormatter(logging.Formatter(_FORMAT.format(process=name), "%Y-%m-%d %H:%M:%S"))
    for package in map(logging.getLogger, PACKAGES):
        package.setLevel(number)
        package.addHandler(file)
        package.propagate = False  # a recipe that configures the root logger must not get our lines


def stop() -> None:
    """Close the file of this process, if there is one; from now on only warnings are printed."""
    for package in map(logging.getLogger, PACKAGES):
        package.setLevel(logging.WARNING)
        package.propagate = True
        for handler in package.handlers[:]:
            if isinstance(handler, _File):
                package.removeHandler(handler)
                with contextlib.suppress(OSError):  # the disk is full
                    handler.close()
