"""A folder that a process keeps open, and so finds again after it was renamed."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from engine.processes.process import ON_LINUX, ON_POSIX


class OpenFolder:
    """Its old path can be made valid again for a while, by a link."""

    def __init__(self, path: Path) -> None:
        """Open the folder at `path`. Raises OSError."""
        self._path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY) if ON_POSIX else -1
        self._link: Path | None = None

    def link_back(self) -> Path | None:
        """If the folder was renamed, put a link at its old path, and return its new one.

        None if it was deleted, if something else has its path, or where the system does not tell.
        """
        found = self._new_path()
        if found is None:
            return None
        # A folder above it may have been renamed: that is the one to link to.
        old, new = self._path, found
        while old.name == new.name and old != old.parent:
            old, new = old.parent, new.parent
        try:
            old.symlink_to(new, target_is_directory=True)
        except OSError:
            return None
        self._link = old
        return found

    def close(self) -> None:
        """Remove the link, and forget the folder."""
        if self._link is not None:
            with contextlib.suppress(OSError):
                if self._link.is_symlink():
                    self._link.unlink()
            self._link = None
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _new_path(self) -> Path | None:
        if not ON_LINUX:
            return None
        try:
            found = Path(f"/proc/self/fd/{self._descriptor}").readlink()
            here, there = os.fstat(self._descriptor), found.stat()
        except OSError:
            return None
        is_same = (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)
        return found if is_same and found != self._path else None
