"""Temporary folders of a process: what a killed one has left, the next one deletes."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from engine.files.ownership import is_owner
from engine.processes import presence

HELD = "held"
"""The file in the folder that its processes hold."""

NEW_SECONDS = 60.0
"""Longer than a new folder is without its HELD; one that was deleted in part may be so for ever."""


def make_held_folder(prefix: str, name: str = "") -> tuple[Path, Callable[[], None]]:
    """Return a new folder that this process holds, and a function that deletes it; delete those of
    `prefix` that no other process holds.

    A process has one with a prefix at a time. Raises OSError.
    """
    _remove_leftovers(prefix)
    folder = Path(tempfile.mkdtemp(prefix=f"{prefix}{name}"))
    descriptor = presence.hold(folder / HELD)

    def delete() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        if descriptor >= 0:
            os.close(descriptor)

    return folder, delete


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
