"""The log switch: writes the log of this process to its own file when a log level is set.

Only the loggers of Traindeck change, not those of recipes and frameworks. Without a level there is
no file, and only warnings are printed.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import sys
from logging.handlers import RotatingFileHandler
from pathlib import Path

from engine.files.atomic_file import open_to_append
from engine.processes.process import absolute_folder
from engine.system import paths

LEVEL_VARIABLE = "TRAINDECK_LOG"
"""The environment variable with the log level of this process and of its child processes."""

FOLDER_VARIABLE = "TRAINDECK_LOG_FOLDER"
"""The folder for the log file of a process without a run, such as a telemetry helper."""

LEVELS = ("debug", "info", "warning", "error")
PACKAGES = ("engine", "gui", "tools")
LARGEST_FILE = 5 * 2**20
"""Bytes; a larger file is renamed to `.1`, and a new file begins."""

OLD_FILES = 2
_FORMAT = "%(asctime)s.%(msecs)03d {process} %(levelname)-7s %(name)s: %(message)s"


class _File(RotatingFileHandler):
    """A log file that ignores write errors, because logging must never stop a run."""

    def _open(self) -> io.TextIOWrapper:
        raw = open_to_append(Path(self.baseFilename))
        return io.TextIOWrapper(io.BufferedWriter(raw), self.encoding)

    def handleError(self, record: logging.LogRecord) -> None:
        pass


def level_number(name: str) -> int:
    """Return the number of the level `name`. Raises ValueError, with a sentence."""
    if name.lower() not in LEVELS:
        raise ValueError(f"There is no log level {name!r}: choose one of {', '.join(LEVELS)}.")
    return logging.getLevelNamesMapping()[name.upper()]


def start(process: str, folder: Path | None = None, level: str = "") -> None:
    """Write the log of this process to `debug-<process>.log` in `folder`, if a level is set.

    `level` is one of LEVELS; default: the level in the environment. Child processes use the same
    level. Default folder: the one in the environment, else `logs` in the data folder. Raises
    ValueError for an unknown level.
    """
    level = level or os.environ.get(LEVEL_VARIABLE, "")
    stop()
    if not level:
        return
    number = level_number(level)
    os.environ[LEVEL_VARIABLE] = level
    chosen = os.environ.get(FOLDER_VARIABLE)
    folder = folder or (absolute_folder(chosen) if chosen else None)
    try:
        if folder is None:
            folder = paths.private_folder("logs")
        else:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.environ[FOLDER_VARIABLE] = str(folder)
        path = folder / f"debug-{process}.log"
        file = _File(path, "a", LARGEST_FILE, OLD_FILES, "utf-8")
    except OSError as error:
        print(f"No log is written: {error}.", file=sys.stderr)
        return
    name = f"{process}[{os.getpid()}]"
    file.setFormatter(logging.Formatter(_FORMAT.format(process=name), "%Y-%m-%d %H:%M:%S"))
    for package in map(logging.getLogger, PACKAGES):
        package.setLevel(number)
        package.addHandler(file)
        package.propagate = False  # a root logger that a recipe configures must not get our lines


def stop() -> None:
    """Close the log file of this process; from now on only warnings are printed."""
    for package in map(logging.getLogger, PACKAGES):
        package.setLevel(logging.WARNING)
        package.propagate = True
        for handler in package.handlers[:]:
            if isinstance(handler, _File):
                package.removeHandler(handler)
                with contextlib.suppress(OSError):  # the disk is full
                    handler.close()
