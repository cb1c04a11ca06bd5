"""A SQLite file is opened for reading unless it is a link, no file or too large."""

from __future__ import annotations

import os
import resource
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from engine.files.sqlite_file import LARGEST_VALUE, open_readonly


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with one plain table."""
    path = tmp_path / "run.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE status (one INTEGER, body BLOB) -- such as (these)")
        connection.execute("INSERT INTO status VALUES (1, 'plain')")
    return path


def _change(path: Path, script: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)


def _read(path: Path) -> object:
    with closing(open_readonly(path)) as connection:
        return connection.execute("SELECT body FROM status").fetchone()


def test_a_plain_file_is_read(file: Path) -> None:
    _change(file, "CREATE UNIQUE INDEX only ON status (one); CREATE TABLE other (a UNIQUE)")
    assert _read(file) == ("plain",)


BESIDE: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a folder": Path.mkdir,
    "a link": lambda path: path.symlink_to("/etc/passwd"),
}


@pytest.mark.parametrize("kind", BESIDE)
@pytest.mark.parametrize("end", ["", "-wal", "-shm", "-journal"])
def test_sqlite_opens_only_regular_files(file: Path, end: str, kind: str) -> None:
    path = file.with_name(file.name + end)
    path.unlink(missing_ok=True)
    BESIDE[kind](path)
    with pytest.raises(
        sqlite3.DatabaseError, match=r"run\.sqlite.* is (a link|not a regular file)"
    ):
        _read(file)


def test_a_missing_file_is_an_operational_error(tmp_path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError, match="unable to open"):
        open_readonly(tmp_path / "none.sqlite")


def test_a_value_that_would_fill_the_memory_is_refused(file: Path) -> None:
    with (
        closing(open_readonly(file)) as connection,
        pytest.raises(sqlite3.DataError, match="too big"),
    ):
        connection.execute(f"SELECT length(zeroblob({LARGEST_VALUE + 1}) || 'a')").fetchone()


def test_a_reader_cannot_write(file: Path) -> None:
    with (
        closing(open_readonly(file)) as connection,
        pytest.raises(sqlite3.OperationalError, match="readonly"),
    ):
        connection.execute("DELETE FROM status")


@pytest.fixture
def logged(file: Path) -> Path:
    """A file with a write-ahead log, whose index SQLite creates for each reader."""
    _change(file, "PRAGMA journal_mode=WAL; INSERT INTO status VALUES (2, 'logged')")
    assert not file.with_name(f"{file.name}-shm").exists()
    return file


def _read_without_room(file: Path) -> object:
    """Read it while no file can grow, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        return _read(file)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_file_on_a_full_disk_is_read(logged: Path) -> None:
    assert _read_without_room(logged) == ("plain",)


def test_a_log_on_a_full_disk_is_not_ignored(logged: Path) -> None:
    with closing(sqlite3.connect(logged)) as writer:
        writer.execute("UPDATE status SET body = 'newer'")
        writer.commit()
        with closing(sqlite3.connect(logged.with_name("copy"))) as _:
            for end in ("", "-wal"):
                source = logged.with_name(f"{logged.name}{end}")
                logged.with_name(f"copy{end}").write_bytes(source.read_bytes())
    with pytest.raises(sqlite3.OperationalError):
        _read_without_room(logged.with_name("copy"))
