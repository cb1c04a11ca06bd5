"""Folders of one connection for files that come or go: exports, and what is sent to be imported."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from engine.interface.files.transfers import MOST_FILES, Unfit, offered_file, piece_of
from engine.interface.sent_code import is_plain_here
from engine.interface.values import PIECE, OfferedFile

PREFIX = "traindeck-files-"
LEFTOVER_SECONDS = 86_400.0
"""Age of a folder that a killed program has left."""


class TemporaryFolders:
    """Makes them, reads and writes their files, and deletes them. May be used from any thread."""

    def __init__(self) -> None:
        self._folders: dict[int, Path] = {}
        self._offered: dict[int, Path] = {}
        self._expected: dict[int, dict[str, OfferedFile]] = {}
        self._lock = threading.Lock()
        self._last_number = 0
        self._is_closed = False

    def make(self, expected: Sequence[OfferedFile] = ()) -> tuple[int, Path]:
        """Make a folder, in which `expected` will be written. Raises Unfit, OSError."""
        files = {file.path: file for file in expected}
        if len(files) < len(expected) or len(files) > MOST_FILES:
            raise Unfit("This is no list of files that could be received.")
        for file in expected:
            if not is_plain_here(file.path) or file.bytes < 0:
                raise Unfit(f"{file.path!r} is no name of a file that could be received.")
        _remove_leftovers()
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        try:
            total = sum(file.bytes for file in expected)
            if (free := shutil.disk_usage(folder).free) < total:
                raise Unfit(
                    f"The files take {total:,} bytes, and the disk of {folder.parent} there has "
                    f"{free:,} free: free some space there, or let TMPDIR there name another disk."
                )
            for name in files:
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch(exist_ok=False)
            with self._lock:
                if self._is_closed:
                    raise Unfit("The connection has ended.")
                self._last_number += 1
                number = self._last_number
                self._folders[number], self._expected[number] = folder, files
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return number, folder

    def folder(self, number: int) -> Path:
        """Return a folder. Raises Unfit."""
        with self._lock:
            found = self._folders.get(number)
        if found is None:
            raise Unfit("What was asked for is not there any more: begin again.")
        return found

    def offer(self, number: int, inner: Path) -> None:
        """From now on, `piece` reads in a folder that lies in this one."""
        self._offered[number] = inner

    def write(self, number: int, name: str, offset: int, content: bytes) -> None:
        """Write a piece of an expected file. Raises Unfit, OSError."""
        folder = self.folder(number)
        file = self._expected[number].get(name)
        is_fit = (
            file is not None
            and 0 <= offset < file.bytes
            and offset % PIECE == 0
            and len(content) == min(PIECE, file.bytes - offset)
        )
        if not is_fit:
            raise Unfit(f"No such piece of {name!r} was expected.")
        with (folder / name).open("r+b") as written:
            written.seek(offset)
            written.write(content)

    def verified(self, number: int, check: Callable[[int], None]) -> Path:
        """Return a folder with all files that were expected. Raises Unfit, OSError.

        `check` is called with the bytes of each file, and may raise to end this.
        """
        folder = self.folder(number)
        for file in self._expected[number].values():
            if offered_file(folder / file.path, folder) != file:
                raise Unfit(
                    f"{file.path.partition('/')[2] or file.path} did not arrive as it was: it has "
                    "changed while it was sent, or was damaged on the way. Nothing was kept of it."
                )
            check(file.bytes)
        return folder

    def piece(self, number: int, name: str, offset: int) -> bytes:
        """Return a piece of a file in a folder. Raises Unfit, OSError."""
        folder = self.folder(number)
        return piece_of(self._offered.get(number, folder), name, offset)

    def discard(self, number: int) -> None:
        """Delete a folder, if it is there."""
        with self._lock:
            folder = self._folders.pop(number, None)
            self._offered.pop(number, None)
            self._expected.pop(number, None)
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        """Delete all folders, and make no more."""
        with self._lock:
            self._is_closed = True
            numbers = list(self._folders)
        for number in numbers:
            self.discard(number)


def _remove_leftovers() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):
            if time.time() - folder.lstat().st_mtime > LEFTOVER_SECONDS:
                shutil.rmtree(folder, ignore_errors=True)
