"""Opens SQLite files that may be damaged, or made to run for ever or to fill the memory.

A reader runs only queries of ours on plain tables, within limits, as SQLite advises for such files
(https://www.sqlite.org/security.html).
"""

from __future__ import annotations

import re
import sqlite3
import stat
import time
from pathlib import Path

from engine.files.ownership import is_trusted

LARGEST_VALUE = 80 * 2**20
"""Bytes of the largest value or row; a worker may send an event of 64 MiB."""

MOST_TABLES = 100
"""Tables and indexes of one file; those of Traindeck have ten."""

_STEPS = 5000
"""Steps of SQLite's machine between two looks at the clock: about 0.1 ms."""

_BESIDE = ("", "-wal", "-shm", "-journal")
"""Ends of the names of the files that SQLite opens."""

_NO_INDEX = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR)

_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: LARGEST_VALUE,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 100_000,
    sqlite3.SQLITE_LIMIT_COLUMN: 100,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 50,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 100,
}
_IS_PLAIN = re.compile(r"CREATE (TABLE|INDEX|UNIQUE INDEX) ")
"""Begin of a definition, as SQLite writes it. Others belong to views, triggers, virtual tables."""

_COMPUTES = re.compile(r"\bAS(?>\s|--[^\n]*\n|/\*(?s:.*?)\*/)*+\(", re.IGNORECASE)
"""What every computed column has: this word, spaces or comments, and a bracket."""


class Patience:
    """Interrupts the queries of one connection that take longer than the time they have."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._until = float("inf")
        self._connection = connection
        connection.set_progress_handler(self._is_over, _STEPS)

    def allow(self, seconds: float) -> None:
        """Give the next queries `seconds` of this thread's computing time."""
        self._until = time.thread_time() + seconds

    def end(self) -> None:
        """Let the next queries take any time, without a look at the clock."""
        self._connection.set_progress_handler(None, 0)

    def _is_over(self) -> bool:
        # Not the time of a clock: a slow disk and a busy machine are no fault of the file.
        return time.thread_time() > self._until


def open_readonly(path: Path) -> sqlite3.Connection:
    """Open a file for reading, also on a disk that is full or read-only.

    Raises sqlite3.Error, OperationalError if there is no file. Call `check_schema` before any other
    query. For one thread.
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
    """Set how large and how complicated things in the file may be, before any query."""
    for limit, value in _LIMITS.items():
        connection.setlimit(limit, value)


def check_schema(connection: sqlite3.Connection) -> None:
    """Check that the file consists of plain tables and their indexes. Raises sqlite3.Error."""
    query = "SELECT type, name, substr(sql, 1, 100000) FROM sqlite_schema LIMIT ?"
    rows = connection.execute(query, (MOST_TABLES + 1,)).fetchall()
    if len(rows) > MOST_TABLES:
        raise sqlite3.DatabaseError(f"it has more than {MOST_TABLES} tables")
    for kind, name, sql in rows:
        if kind not in ("table", "index"):
            raise sqlite3.DatabaseError(f"it has a {kind}, {name!r}, which no run has")
        if sql is None and kind == "index":
            continue  # the index of a constraint, which has no definition of its own
        if not _IS_PLAIN.match(sql or "") or _COMPUTES.search(sql):
            raise sqlite3.DatabaseError(f"its table {name!r} is not a plain one")


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
