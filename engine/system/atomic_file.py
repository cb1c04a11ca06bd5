"""Replaces a file so that a reader finds the old content or the new one, never a part of either."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from pathlib import Path


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


def sync_to_disk(path: Path) -> None:
    """Wait until a file, or (where the system can) the entries of a folder, are on the disk.

    Raises OSError.
    """
    if path.is_dir() and os.name != "posix":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
