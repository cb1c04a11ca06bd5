"""Opens SQLite files for reading that may be damaged, links or too large."""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from pathlib import Path

from engine.files.ownership import is_trusted

LARGEST_VALUE = 80 * 2**20
"""Bytes of the largest value or row; a worker may send an event of 64 MiB."""

SECONDS_OF_REST = 2.0
"""After this, the next change of a file has another time on every disk."""

Mark = tuple[int, int, int]

_BESIDE = ("", "-wal", "-shm", "-journal")
"""Ends of the names of the files that SQLite opens."""

_NO_INDEX = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR)


def open_readonly(path: Path) -> sqlite3.Connection:
    """Open a file for reading, also on a disk that is full or read-only.

    Raises sqlite3.Error, OperationalError if there is no file. For one thread.
    """
    for end in _BESIDE:
        problem = _file_problem(path.with_name(path.name + end))
        if problem:
            raise sqlite3.DatabaseError(problem)
    log = path.with_name(f"{path.name}-wal")
    if path.exists() and not path.stat().st_size and log.exists() and log.stat().st_size:
        # SQLite would delete the log.
        raise sqlite3.DatabaseError(f"{path.name} is empty, but its write-ahead log is not")
    connection = _connect(path, "mode=ro")
    if not can_read(connection) and not (log.exists() and log.stat().st_size):
        # No log, so no process writes the file: that would need the index of the log too.
        connection.close()
        connection = _connect(path, "mode=ro&immutable=1")
    return connection


def open_unwritten(path: Path) -> sqlite3.Connection:
    """Open a file that no process writes, for reading; no other file appears beside it.

    Raises and asks as `open_readonly` does.
    """
    if problem := _file_problem(path):
        raise sqlite3.DatabaseError(problem)
    return _connect(path, "mode=ro&immutable=1")


def mark_of_rest(path: Path) -> Mark | None:
    """Return what changes when the file is written; None: a process may be writing it now.

    A reader with `open_unwritten` compares it before and after the read.
    """
    for end in ("-wal", "-journal"):
        try:
            if os.stat(f"{path}{end}").st_size:  # noqa: PTH116  # thousands of stores are read
                return None
        except OSError:
            continue
    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError:
        return None
    if time.time() - status.st_mtime < SECONDS_OF_REST:
        return None  # a second change may have the same time
    return status.st_mtime_ns, status.st_size, status.st_ino


def can_read(connection: sqlite3.Connection) -> bool:
    """Whether SQLite could create what it needs beside the file: an index of its write-ahead log.

    It cannot on a disk that is full or read-only. True for a damaged file.
    """
    try:
        connection.execute("PRAGMA user_version").fetchone()
    except sqlite3.OperationalError as error:
        return error.sqlite_errorcode & 0xFF not in _NO_INDEX
    except sqlite3.DatabaseError:
        pass
    return True


def _connect(path: Path, options: str) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?{options}"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None)
    set_limits(connection)
    connection.execute("PRAGMA trusted_schema=OFF")
    connection.execute("PRAGMA cell_size_check=ON")
    return connection


def set_limits(connection: sqlite3.Connection) -> None:
    """Set how large a value in the file may be, before any query."""
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_VALUE)


def _file_problem(path: Path) -> str:
    """Return why SQLite must not open `path`; empty if it may, or if there is no such file."""
    try:
        status = path.lstat()
    except OSError:
        return ""  # SQLite reports it
    if stat.S_ISLNK(status.st_mode):
        return f"{path.name} is a link"
    if not stat.S_ISREG(status.st_mode):
        return f"{path.name} is not a regular file"
    if not is_trusted(status):
        return f"{path.name} belongs to another user"
    return ""
