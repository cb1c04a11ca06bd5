"""Keeps disk space free for the final events of a run whose disk becomes full."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from engine.files.atomic_file import write_atomically
from engine.files.disk_errors import short_reason

BYTES = 4 * 2**20
_FILE = "reserve"


class DiskReserve:
    """A file in the run folder, which is deleted when the disk is full."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _FILE
        self._exists = False

    def create(self) -> str:
        """Write the file. Return why that failed, in a few words; empty if the file exists now."""
        if self._exists:
            return ""
        try:
            if shutil.disk_usage(self._path.parent).free < 2 * BYTES:
                return "the disk is almost full"
            # Random bytes, because a file system may compress other bytes to almost nothing.
            write_atomically(self._path, os.urandom(BYTES), mode=0o600)
        except OSError as error:
            self.delete()
            return short_reason(error)
        self._exists = True
        return ""

    def why_not(self) -> str:
        """Return why no file can be written here, in a few words; empty if one can."""
        try:
            self._path.touch()
        except OSError as error:
            return short_reason(error)
        return ""

    def delete(self) -> None:
        """Delete the file, so that its space can be used."""
        self._exists = False
        try:
            self._path.unlink(missing_ok=True)
        except OSError:
            return  # in a read-only folder the file stays
