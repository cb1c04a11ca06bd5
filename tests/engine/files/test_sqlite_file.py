"""A SQLite file that was made to deceive, to run for ever or to fill the memory is refused."""

from __future__ import annotations

import os
import resource
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from engine.files.sqlite_file import LARGEST_VALUE, Patience, check_schema, open_readonly

ENDLESS = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) AS body FROM n"
)


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
        check_schema(connection)
        return connection.execute("SELECT body FROM status").fetchone()


def test_a_plain_file_is_read(file: Path) -> None:
    _change(file, "CREATE UNIQUE INDEX only ON status (one); CREATE TABLE other (a UNIQUE)")
    assert _read(file) == ("plain",)


SCHEMAS = {
    "a view, 'status'": f"DROP TABLE status; CREATE VIEW status AS {ENDLESS}",
    "a trigger, 'later'": "CREATE TRIGGER later AFTER UPDATE ON status BEGIN SELECT 1; END",
    "'found' is not a plain one": "CREATE VIRTUAL TABLE found USING fts5(body)",
    "'sums' is not a plain one": "CREATE TABLE sums (a, b AS (a + 1))",
    "'hidden' is not a plain one": "CREATE TABLE hidden (a, b as/* ( */--(\n(a + 1) STORED)",
    "more than 100 tables": "".join(f"CREATE TABLE t{n} (a);" for n in range(101)),
}


@pytest.mark.parametrize("reason", SCHEMAS)
def test_only_plain_tables_are_read(file: Path, reason: str) -> None:
    _change(file, SCHEMAS[reason])
    with pytest.raises(sqlite3.DatabaseError, match=reason):
        _read(file)


def test_a_definition_that_was_forged_is_refused(file: Path) -> None:
    forged = "CREATE VIRTUAL TABLE status USING fts5(body)"
    _change(
        file,
        f"PRAGMA writable_schema=ON; UPDATE sqlite_schema SET sql='{forged}', type='table'",
    )
    with pytest.raises(sqlite3.DatabaseError):
        _read(file)


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


def test_a_query_without_end_is_interrupted(file: Path) -> None:
    with closing(open_readonly(file)) as connection:
        patience = Patience(connection)
        patience.allow(0.05)
        with pytest.raises(sqlite3.OperationalError, match="interrupted"):
            connection.execute(ENDLESS).fetchone()
        patience.allow(5)
        assert connection.execute("SELECT body FROM status").fetchone() == ("plain",)


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
