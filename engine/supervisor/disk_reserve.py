"""Space that is kept for the last words of a run whose disk becomes full."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

BYTES = 4 * 2**20
_FILE = "reserve"


class Reserve:
    """A file in the run folder that is given up when something must be written all the same."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _FILE
        self.is_there = False

    def make(self) -> str:
        """Take the space, unless it is there or would be the last; why not, or empty."""
        if self.is_there:
            return ""
        try:
            if shutil.disk_usage(self._path.parent).free < 2 * BYTES:
                return "the disk is almost full"
            # Random, because some file systems give no space to what they can compress.
            self._path.write_bytes(os.urandom(BYTES))
        except OSError as error:
            self.give_up()
            return (error.strerror or str(error)).lower()
        self.is_there = True
        return ""

    def give_up(self) -> None:
        """Make room."""
        self.is_there = False
        try:
            self._path.unlink(missing_ok=True)
        except OSError:
            return  # a folder that takes nothing gives nothing either
