"""Listens on this machine: at a Unix socket in a folder of this user, or a pipe of Windows."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from multiprocessing.connection import Listener
from pathlib import Path

LONGEST_PATH = 103
"""Bytes of the path of a socket, without the zero at its end: macOS allows 104, Linux 108."""

_NAME = "control"


def open_listener(backlog: int) -> Listener:
    """Listen at a new address; `backlog` callers may wait. Raises OSError."""
    if os.name != "posix":
        return Listener(backlog=backlog)
    folder = private_folder()
    atexit.register(partial(shutil.rmtree, folder, ignore_errors=True))
    return Listener(str(folder / _NAME), "AF_UNIX", backlog)


def private_folder() -> Path:
    """Create a folder, for this user only, whose path is short enough for those of sockets in it.

    Names in it may have 7 characters.

    It is in the folder for temporary files unless the path of that is too long. Raises OSError.
    """
    problem: OSError | None = None
    for parent in _parents():
        try:
            folder = Path(tempfile.mkdtemp(prefix="traindeck-", dir=parent))
        except OSError as error:
            problem = problem or error
            continue
        if len(os.fsencode(folder / _NAME)) <= LONGEST_PATH:
            return folder
        folder.rmdir()
    raise problem or OSError(
        f"The path of the folder for temporary files, {tempfile.gettempdir()}, is too long for a "
        f"socket, which may have {LONGEST_PATH} bytes: set TMPDIR to another folder"
    )


def _parents() -> Iterator[str]:
    yield tempfile.gettempdir()
    if folder := os.environ.get("XDG_RUNTIME_DIR"):
        yield folder
    yield "/tmp"
