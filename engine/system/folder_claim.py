"""Lets one machine, or one container, at a time use a data folder: its processes hold a file in it.

Two that use one at once would take each other's processes for dead, and write the same stores.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from contextlib import suppress
from pathlib import Path

from engine.processes import presence
from engine.processes.machine import this_machine

PREFIX = "used-by-"
FORGET_SECONDS = 24 * 3600.0
"""Age of a file that nobody holds, such as one of an earlier boot, at which it is deleted."""

_changing = threading.Lock()
_held: dict[Path, int] = {}
"""The file that this process holds, and its descriptor; none or one."""


def claim(folder: Path) -> str:
    """Hold `folder` for this machine until this process ends, and return an empty text.

    Return the name of the machine if another one holds it. On a file system without locks, or
    where nothing can be written, nobody holds it.
    """
    here = this_machine()
    if not here.boot:
        return ""
    number = hashlib.sha256(f"{here.boot} {here.processes}".encode()).hexdigest()[:16]
    name = f"{PREFIX}{number}-{here.host}"
    own = folder / name
    with _changing, suppress(OSError):
        if own in _held and own.exists():
            return ""
        _hold(own)
    for other in folder.glob(f"{PREFIX}*"):
        if other.name == name:
            continue
        if presence.is_held(other):
            return other.name.removeprefix(PREFIX).partition("-")[2]
        with suppress(OSError):
            if time.time() - other.lstat().st_mtime > FORGET_SECONDS:
                other.unlink()
    return ""


def _hold(file: Path) -> None:
    """Hold `file`, and no other one any more: this process has another data folder now."""
    descriptor = presence.hold(file)
    os.utime(file)  # it is in use, however old
    for before in _held.values():
        os.close(before)
    _held.clear()
    _held[file] = descriptor
