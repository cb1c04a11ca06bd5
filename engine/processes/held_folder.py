"""Temporary folders of a process: what a killed one has left, the next one deletes."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from pathlib import Path

from engine.files.ownership import is_owner
from engine.processes import presence

HELD = "held"
"""The file in the folder that its processes hold."""

NEW_SECONDS = 60.0
"""Longer than a new folder is without its HELD; one that was deleted in part may be so for ever."""


def make_held_folder(prefix: str, name: str = "") -> Path:
    """Return a new folder that this process holds; delete those of `prefix` that no other holds.

    A process has one with a prefix at a time. Raises OSError.
    """
    _remove_leftovers(prefix)
    folder = Path(tempfile.mkdtemp(prefix=f"{prefix}{name}"))
    presence.hold(folder / HELD)
    return folder


def _remove_leftovers(prefix: str) -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with contextlib.suppress(OSError):
            if is_owner(folder.lstat()) and not _is_used(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _is_used(folder: Path) -> bool:
    held = folder / HELD
    if held.exists():
        return presence.is_held(held)
    return time.time() - folder.stat().st_mtime < NEW_SECONDS  # its process is about to hold it
