"""The rows of a store, read page by page, are those that SQLite reads."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from engine.messages.events import Notice
from engine.repair.store_pages import StorePages
from engine.runs.store.run_store import FILE_NAME as STORE
from tests.support.old_runs import ALL, restore_run
from tests.support.recorded_runs import RecordedRun


def in_pages(folder: Path) -> dict[str, set[tuple[object, ...]]]:
    found: dict[str, set[tuple[object, ...]]] = {}
    with StorePages(folder) as pages:
        assert pages.knows_free
        for table, values in pages.rows():
            if table != "event" or not (values[0] == 1 and isinstance(values[1], int)):
                found.setdefault(table, set()).add(values)
    return found  # without the status, which looks like an event


def in_sqlite(folder: Path) -> dict[str, set[tuple[object, ...]]]:
    with closing(sqlite3.connect(folder / STORE)) as connection:
        names = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        tables = {"event", "series", "point", "file"}.intersection(name for (name,) in names)
        rows = {table: set(connection.execute(f"SELECT * FROM {table}")) for table in tables}
    return {table: found for table, found in rows.items() if found}


@pytest.fixture
def recorded() -> RecordedRun:
    """A run with trees of three levels, with long rows, and with deleted rows."""
    made = RecordedRun()
    made.begin()
    made.store.keep_file("recipe.py", b"code" * 10_000)
    for first in range(0, 20_000, 1000):
        made.add_points("train/loss", range(first, first + 1000), value=first + 0.25)
    for size in (10, 500, 5000, 50_000):
        made.store.append(Notice("x" * size), 1.5)
    made.store.commit()
    made.store.rewind(15_000)
    made.store.commit()
    return made


def test_what_is_in_the_write_ahead_log(recorded: RecordedRun) -> None:
    assert (recorded.folder / f"{STORE}-wal").stat().st_size
    assert in_pages(recorded.folder) == in_sqlite(recorded.folder)


def test_what_is_in_the_file(recorded: RecordedRun) -> None:
    recorded.store.close()
    assert not (recorded.folder / f"{STORE}-wal").exists()
    assert in_pages(recorded.folder) == in_sqlite(recorded.folder)


@pytest.mark.parametrize("name", ALL)
def test_stores_of_all_formats(name: str) -> None:
    folder = restore_run(name)
    assert in_pages(folder) == in_sqlite(folder)


def test_noise_and_what_is_no_file_hold_no_rows(tmp_path: Path) -> None:
    for content in (b"", b"\xff" * 9, b"\x0a" * 100_000, b"\x0d\x00\x00\x00\x09" * 20_000):
        (tmp_path / STORE).write_bytes(content)
        (tmp_path / f"{STORE}-wal").write_bytes(content)
        with StorePages(tmp_path) as pages:
            assert list(pages.rows()) == []
    (tmp_path / STORE).unlink()
    (tmp_path / STORE).symlink_to("/dev/zero")
    with StorePages(tmp_path) as pages:
        assert list(pages.rows()) == []
