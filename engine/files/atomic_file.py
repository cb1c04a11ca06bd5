"""Replaces a file so that a reader finds the old content or the new one, never a part of either.

Also what a power cut needs: files and folders whose content and names are on the disk.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from io import FileIO
from pathlib import Path

_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{6}\.tmp")
_LONGEST_WRITE = 600.0
"""Seconds after which the temporary file of a write that has not ended is a leftover."""

_NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EACCES)
"""Errors of file systems that cannot sync folders, and of folders that may not be read."""


def write_atomically(
    path: Path, data: bytes | str | Iterable[str], *, mode: int = 0o666, sync: bool = False
) -> None:
    """Replace `path` with `data`; text becomes UTF-8, an iterable is written piece by piece.

    The file gets the permissions `mode`, minus the umask. With `sync`, the content and the name are
    on the disk when this returns. If the write or the iterable fails, `path` does not change.
    Raises OSError.
    """
    # Each call has its own temporary file, because two processes may write at once; the last wins.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(3)}.tmp")
    pieces = (data,) if isinstance(data, bytes | str) else data
    # O_EXCL: this fails if a file or a link of this name exists.
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            for piece in pieces:
                file.write(piece.encode() if isinstance(piece, str) else piece)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if sync:
        sync_to_disk(path.parent)


def open_to_append(path: Path) -> FileIO:
    """Open `path` to append to it, without a buffer; it is for its owner only, also an old one.

    Raises OSError, also if it is a link, a pipe or a device, or belongs to another user, who may
    have put it there to overwrite a file of ours, to read what we write, or to let us wait.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | _NO_LINK_NO_WAIT
    try:
        file = FileIO(os.open(path, flags, 0o600), "ab")
    except OSError as error:
        kind = {errno.ELOOP: "a link", errno.ENXIO: "a pipe"}.get(error.errno or 0)
        if kind is None:
            raise
        raise OSError(f"{path} is {kind}") from error
    try:
        mode = os.fstat(file.fileno()).st_mode
        if not stat.S_ISREG(mode):
            raise OSError(f"{path} is not a regular file")
        if os.name == "posix" and stat.S_IMODE(mode) & 0o077:
            os.fchmod(file.fileno(), 0o600)
    except BaseException:
        file.close()
        raise
    return file


_NO_LINK_NO_WAIT: int = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


SYNCED_AT_ONCE = 64 * 2**20
"""Bytes of a large file that are synced before the next ones."""


def sync_to_disk(path: Path, count: Callable[[int], None] = lambda size: None) -> None:
    """Wait until a file, or (where the system can) the entries of a folder, are on the disk.

    It calls `count` with the size of each piece of a large file, so that a slow disk can be told
    from one that hangs. Raises OSError.
    """
    is_folder = path.is_dir()
    if is_folder and os.name != "posix":
        return
    try:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            if not is_folder:
                _write_out(descriptor, count)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if not (is_folder and error.errno in _NO_FOLDER_SYNC):
            raise


def begin_sync(path: Path) -> None:
    """Let the system begin to write a file to the disk, where it can, and do not wait for it.

    An error is one that `sync_to_disk` meets again. Raises OSError.
    """
    if _sync_file_range is not None:
        with path.open("rb", buffering=0) as file:
            _sync_file_range(file.fileno(), 0, 0, _WRITE)


def _write_out(descriptor: int, count: Callable[[int], None]) -> None:
    """Write a large file to the disk piece by piece, where the system can; `fsync` is due still."""
    size = os.fstat(descriptor).st_size
    if size <= SYNCED_AT_ONCE or _sync_file_range is None:
        return
    for start in range(0, size, SYNCED_AT_ONCE):
        _sync_file_range(descriptor, start, SYNCED_AT_ONCE, _WAIT_WRITE_WAIT)
        count(SYNCED_AT_ONCE)


_WRITE = 2
_WAIT_WRITE_WAIT = 7


def _find_sync_file_range() -> Callable[[int, int, int, int], int] | None:
    """Return the function of Linux; its errors are those that `fsync` reports."""
    try:
        found = ctypes.CDLL(None).sync_file_range
    except (AttributeError, OSError, TypeError):
        return None
    found.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    return found


_sync_file_range = _find_sync_file_range()


def sync_tree(folder: Path) -> None:
    """Wait until `folder`, everything in it and its name are on the disk. Raises OSError."""
    for path in folder.rglob("*"):
        if not path.is_symlink() and (path.is_file() or path.is_dir()):
            sync_to_disk(path)
    sync_to_disk(folder)
    sync_to_disk(folder.parent)


def create_folders(folder: Path, mode: int = 0o700) -> None:
    """Create `folder` and its missing parents, each with `mode`; their names are on the disk then.

    Raises OSError.
    """
    if folder.is_dir():
        return
    create_folders(folder.parent, mode)
    folder.mkdir(mode, exist_ok=True)
    sync_to_disk(folder.parent)


def remove_leftovers(folder: Path, *, older_than: float = _LONGEST_WRITE) -> None:
    """Delete the temporary files in `folder` of processes that were killed while they wrote.

    A file younger than `older_than` seconds stays: a process may be writing it.
    """
    for file in leftovers(folder, older_than=older_than):
        with suppress(OSError):
            file.unlink()


def leftovers(folder: Path, *, older_than: float = _LONGEST_WRITE) -> list[Path]:
    """Return the files that `remove_leftovers` deletes."""
    found = []
    for file in sorted(folder.glob(".*.tmp")):
        with suppress(OSError):
            if _TEMPORARY.fullmatch(file.name) and _age(file) >= older_than:
                found.append(file)
    return found


def _age(file: Path) -> float:
    return time.time() - file.lstat().st_mtime
