"""The backup of a store, `run.backup.sqlite`: a copy for the day on which the store is damaged."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from engine.files.atomic_file import sync_to_disk
from engine.files.sqlite_file import open_readonly, open_unwritten
from engine.runs.store import run_store

FILE_NAME = "run.backup.sqlite"

SPARE = 64 * 2**20
"""Bytes that stay free on the disk beside a new backup: the run needs them more."""

_INSTRUCTIONS = 100_000
"""Of SQLite, after which the check of a copy can be given up."""

_PAGES = 256
"""Pages, together 1 MiB, after which the copy can be given up."""


class GivenUp(Exception):
    """The copy was given up, and the earlier backup stays."""


def back_up(folder: Path, is_given_up: Callable[[], bool] = lambda: False) -> None:
    """Replace the backup of the store in `folder` by a copy of what is committed now.

    Another thread or process may write the store meanwhile: it neither waits for the copy nor
    changes it. Raises GivenUp, sqlite3.Error, and OSError, also for a disk that is nearly full.
    """
    size = sum(
        file.stat().st_size for file in folder.glob(f"{run_store.FILE_NAME}*") if _is_store(file)
    )
    if shutil.disk_usage(folder).free < size + SPARE:
        raise OSError(errno.ENOSPC, "The disk is nearly full", str(folder / FILE_NAME))
    new = folder / f".{FILE_NAME}.{secrets.token_hex(3)}.tmp"
    os.close(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        with (
            closing(open_readonly(folder / run_store.FILE_NAME)) as store,
            closing(sqlite3.connect(new, isolation_level=None)) as copy,
        ):
            # It is synced as a whole, and then gets its name.
            copy.execute("PRAGMA journal_mode = OFF")
            copy.execute("PRAGMA synchronous = OFF")
            _copy(store, copy, is_given_up)
            _check(copy, is_given_up)
        sync_to_disk(new)
        new.replace(folder / FILE_NAME)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    sync_to_disk(folder)


def _check(copy: sqlite3.Connection, is_given_up: Callable[[], bool]) -> None:
    """Raise DatabaseError if the copy is damaged, as its store is. The earlier backup stays."""
    copy.set_progress_handler(is_given_up, _INSTRUCTIONS)
    try:
        [(verdict,)] = copy.execute("PRAGMA quick_check(1)").fetchall()
    except sqlite3.OperationalError:
        if is_given_up():
            raise GivenUp from None
        raise
    if verdict != "ok":
        raise sqlite3.DatabaseError(f"the store is damaged: {verdict}")


def open_backup(folder: Path) -> sqlite3.Connection:
    """Open the backup of the store in `folder` for reading.

    Raises sqlite3.Error, DatabaseError also if it cannot be one of a store.
    """
    connection = open_unwritten(folder / FILE_NAME)
    try:
        connection.execute("SELECT 1 FROM sqlite_schema").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _is_store(file: Path) -> bool:
    return file.name in (run_store.FILE_NAME, f"{run_store.FILE_NAME}-wal")


def _copy(
    store: sqlite3.Connection, copy: sqlite3.Connection, is_given_up: Callable[[], bool]
) -> None:
    def look(status: int, remaining: int, total: int) -> None:
        if is_given_up():
            raise GivenUp

    store.execute("BEGIN")  # otherwise, each commit of the writer would begin the copy anew
    store.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    store.backup(copy, pages=_PAGES, progress=look)
    store.execute("COMMIT")
