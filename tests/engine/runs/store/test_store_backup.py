"""Tests `engine.runs.store.store_backup`: a copy of a store that is written meanwhile."""

from __future__ import annotations

import shutil
import sqlite3
import stat
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from engine.messages.events import Notice
from engine.runs.store import store_backup
from engine.runs.store.run_store import FILE_NAME as STORE
from engine.runs.store.run_store import RunStore
from engine.runs.store.store_backup import FILE_NAME, SPARE, GivenUp, back_up, open_backup
from tests.support.events import losses


@pytest.fixture
def written(store: RunStore) -> RunStore:
    """A store of about 3 MB, of which a part is in the write-ahead log only."""
    for first in range(0, 40_000, 1000):
        store.append(losses([0.25] * 1000, first_step=first), 1.0)
        store.commit()
    return store


def rows(connection: sqlite3.Connection) -> Iterator[tuple[object, ...]]:
    for table in ("event", "series", "point", "block", "status", "file"):
        yield from connection.execute(f"SELECT * FROM {table}")


def in_backup(folder: Path) -> list[tuple[object, ...]]:
    with closing(open_backup(folder)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return list(rows(connection))


def in_store(folder: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(folder / STORE)) as connection:
        return list(rows(connection))


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.name != "home"}


def test_a_backup_has_all_that_is_committed_and_is_private(
    written: RunStore, tmp_path: Path
) -> None:
    before = names(tmp_path)
    back_up(tmp_path)
    assert in_backup(tmp_path) == in_store(tmp_path)
    assert names(tmp_path) == {*before, FILE_NAME}, "and nothing lies beside it"
    assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600
    written.append(Notice("later"), 2.0)
    written.commit()
    assert in_backup(tmp_path) != in_store(tmp_path)
    back_up(tmp_path)
    assert in_backup(tmp_path) == in_store(tmp_path)


def test_the_store_is_written_during_the_copy_which_does_not_change(
    written: RunStore, tmp_path: Path
) -> None:
    before, looks = in_store(tmp_path), 0
    goes_on, is_done = threading.Event(), threading.Event()

    def look() -> bool:
        nonlocal looks
        looks += 1
        goes_on.set()
        assert is_done.wait(60)
        return False

    thread = threading.Thread(target=back_up, args=(tmp_path, look))
    thread.start()
    assert goes_on.wait(60)
    for number in range(50):
        written.append(Notice(f"during the copy {number}"), 2.0)
        written.append(losses([0.5] * 100, first_step=50_000 + 100 * number), 2.0)
        written.commit()
    is_done.set()
    thread.join(60)
    assert looks > 1
    assert in_backup(tmp_path) == before
    assert len(in_store(tmp_path)) > len(before)


def test_what_is_given_up_or_fails_leaves_the_backup_of_before(
    written: RunStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    back_up(tmp_path)
    before = names(tmp_path), in_backup(tmp_path)
    written.append(Notice("later"), 2.0)
    written.commit()
    with pytest.raises(GivenUp):
        back_up(tmp_path, lambda: True)

    def fail(*_: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    with monkeypatch.context() as patch:
        patch.setattr(store_backup, "_copy", fail)
        with pytest.raises(sqlite3.OperationalError):
            back_up(tmp_path)
    assert (names(tmp_path), in_backup(tmp_path)) == before


def test_a_disk_that_is_nearly_full_keeps_its_room(
    written: RunStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = sum((tmp_path / name).stat().st_size for name in (STORE, f"{STORE}-wal"))
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=size + SPARE - 1))
    with pytest.raises(OSError, match="The disk is nearly full"):
        back_up(tmp_path)
    assert not (tmp_path / FILE_NAME).exists()


def test_what_is_no_store_is_opened_as_none(tmp_path: Path, store: RunStore) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"no database" * 1000)
    with pytest.raises(sqlite3.DatabaseError, match="not a database"):
        open_backup(tmp_path)
    (tmp_path / FILE_NAME).unlink()
    (tmp_path / FILE_NAME).symlink_to(tmp_path / STORE)
    with pytest.raises(sqlite3.DatabaseError, match="is a link"):
        open_backup(tmp_path)


@pytest.mark.parametrize("noise", [bytes(4096), b"\xa5" * 4096])
def test_a_damaged_store_does_not_replace_its_backup(
    written: RunStore, tmp_path: Path, noise: bytes
) -> None:
    back_up(tmp_path)
    intact, before = (tmp_path / FILE_NAME).read_bytes(), names(tmp_path)
    with closing(sqlite3.connect(tmp_path / STORE)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with (tmp_path / STORE).open("r+b") as file:
        file.seek(20 * 4096)
        file.write(noise)
    with pytest.raises(sqlite3.DatabaseError):
        back_up(tmp_path)
    assert (tmp_path / FILE_NAME).read_bytes() == intact
    assert names(tmp_path) == before
