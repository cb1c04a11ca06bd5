"""The store on a full or read-only disk: nothing is lost, and entries are written in order."""

from __future__ import annotations

import errno
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from engine.files import file_sync
from engine.messages.events import Failure, Notice, Paused, Progress, RunEnded
from engine.runs.run_state import RunState
from engine.runs.store.run_store import FILE_NAME, RunStore
from engine.runs.store.store_reader import RunReader
from engine.supervisor import buffered_store
from engine.supervisor.buffered_store import BufferedStore
from tests.support.events import losses
from tests.support.sentences import sentence


@pytest.fixture
def buffer(
    store: RunStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[BufferedStore]:
    monkeypatch.setattr(buffered_store, "RETRY_SECONDS", 0.0)
    opened = BufferedStore(tmp_path, store)
    yield opened
    opened.close()


def read_only(store: RunStore, on: bool) -> None:
    store._connection.execute(f"PRAGMA query_only = {int(on)}")


def losses_in(folder: Path) -> list[float]:
    with RunReader(folder) as reader:
        return reader.points_after("train/loss", 0).value.tolist()


def test_entries_that_a_read_only_disk_refuses_are_written_later(
    buffer: BufferedStore, store: RunStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buffered_store, "CLOSE_SECONDS", 60.0)
    buffer.append(losses([1.0, 2.0]))
    buffer.commit()
    read_only(store, True)
    buffer.append(losses([3.0], first_step=3))
    buffer.append(Paused(3))
    buffer.commit()
    assert buffer.write_problem == "it is read-only"
    assert buffer.status.state is RunState.PAUSED, "also while it cannot be written"
    assert losses_in(tmp_path) == [1.0, 2.0]
    read_only(store, False)
    buffer.append(losses([4.0], first_step=4))
    buffer.commit()
    assert buffer.write_problem == ""
    assert losses_in(tmp_path) == [1.0, 2.0, 3.0, 4.0]
    assert store.status == buffer.status
    assert buffer.close()


def test_entries_wait_while_another_program_locks_the_store(
    buffer: BufferedStore, store: RunStore, tmp_path: Path
) -> None:
    store._connection.execute("PRAGMA busy_timeout = 0")
    buffer.commit()
    with closing(sqlite3.connect(tmp_path / FILE_NAME, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        buffer.append(losses([1.0]))
        buffer.commit()
        assert buffer.write_problem == sentence("another-program-has-locked-store")
        other.execute("ROLLBACK")
    buffer.commit()
    assert losses_in(tmp_path) == [1.0]


def test_a_rewind_waits_like_every_other_entry(
    buffer: BufferedStore, store: RunStore, tmp_path: Path
) -> None:
    buffer.append(losses([1.0, 2.0, 3.0]))
    buffer.commit()
    read_only(store, True)
    buffer.rewind(1)
    buffer.append(losses([7.0], first_step=2))
    buffer.commit()
    assert losses_in(tmp_path) == [1.0, 2.0, 3.0]
    read_only(store, False)
    buffer.commit()
    assert losses_in(tmp_path) == [1.0, 7.0]


@contextmanager
def no_file_grows_beyond(size: int) -> Iterator[None]:
    """As on a full disk, through the limit on the size of this process's files."""
    resource = pytest.importorskip("resource", reason="only POSIX limits the size of files")
    assert signal.getsignal(signal.SIGXFSZ) is signal.SIG_IGN, "the default of Python"
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))


def test_a_file_that_may_not_grow_loses_no_point(buffer: BufferedStore, tmp_path: Path) -> None:
    wal = tmp_path / f"{FILE_NAME}-wal"
    written = 0
    with no_file_grows_beyond(wal.stat().st_size + 100_000):
        while not buffer.write_problem:
            buffer.append(losses([float(written)] * 500, first_step=written + 1))
            buffer.commit()
            written += 500
            assert written < 1_000_000
        buffer.append(losses([-1.0], first_step=written + 1))
        buffer.commit()
        on_disk = len(losses_in(tmp_path))
        assert on_disk < written + 1
    buffer.commit()
    assert len(losses_in(tmp_path)) == written + 1
    assert buffer.write_problem == ""


def test_the_oldest_points_are_dropped_when_there_are_too_many(
    buffer: BufferedStore, store: RunStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buffered_store, "MOST_POINTS", 4)
    read_only(store, True)
    for step in range(1, 4):
        buffer.append(losses([float(step)] * 2, first_step=2 * step - 1))
    buffer.append(Progress(1, 6, 1.0, 1.0, 1.0))
    read_only(store, False)
    buffer.commit()
    buffer.commit()
    assert losses_in(tmp_path) == [2.0, 2.0, 3.0, 3.0]
    assert (buffer.pop_dropped_count(), buffer.pop_dropped_count()) == (2, 0)


def test_ten_minutes_of_entries_wait_in_little_memory_and_none_is_lost(
    buffer: BufferedStore, store: RunStore, tmp_path: Path
) -> None:
    read_only(store, True)
    for step in range(1, 60_001):
        buffer.append(losses([float(step)], first_step=step))
        buffer.append(Progress(1, step, 1.0, 1.0, 1.0))
        if step % 20_000 == 0:
            buffer.append(Paused(step))
    assert len(buffer._waiting) < 50
    read_only(store, False)
    while buffer.write_problem:
        buffer.commit()
    assert losses_in(tmp_path) == [float(step) for step in range(1, 60_001)]
    assert store.status == buffer.status
    with RunReader(tmp_path) as reader:
        assert [e.event for e in reader.events_after(0)] == [Paused(n * 20_000) for n in (1, 2, 3)]


def test_a_backlog_is_written_piece_by_piece(
    buffer: BufferedStore, store: RunStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the pieces, the supervisor answers commands and shows that it is alive."""
    monkeypatch.setattr(buffered_store, "DRAIN_SECONDS", 1e-9)
    read_only(store, True)
    for first in range(1, 100_001, 1000):
        buffer.append(losses([1.0] * 1000, first_step=first))
    read_only(store, False)
    seen = [0]
    while buffer.write_problem:
        buffer.commit()
        seen.append(len(losses_in(tmp_path)))
        read_only(store, len(seen) == 3)  # once, the disk refuses again
    assert seen == sorted(seen)
    assert seen[2] == seen[3], "the disk refused"
    assert len(set(seen)) == 6
    assert seen[-1] == 100_000
    buffer.append(losses([2.0], first_step=100_001))
    buffer.commit()
    assert losses_in(tmp_path)[99_999:] == [1.0, 2.0]


def test_the_end_of_a_run_waits_while_its_last_points_are_written(
    buffer: BufferedStore, store: RunStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buffered_store, "DRAIN_SECONDS", 1e-9)
    monkeypatch.setattr(buffered_store, "CLOSE_SECONDS", 1e-2)
    read_only(store, True)
    for first in range(1, 200_001, 1000):
        buffer.append(losses([1.0] * 1000, first_step=first))
    read_only(store, False)
    buffer.commit()
    buffer.close()
    assert len(losses_in(tmp_path)) == 200_000


def test_a_program_error_is_raised_and_not_taken_for_a_full_disk(
    buffer: BufferedStore, store: RunStore
) -> None:
    store._connection.execute("DROP TABLE point")
    with pytest.raises(sqlite3.Error, match="no such table"):
        buffer.append(losses([1.0]))


@pytest.mark.skipif(os.name != "posix", reason="elsewhere a file that is in use stays")
def test_a_store_that_was_deleted_or_replaced_is_missing(
    buffer: BufferedStore, tmp_path: Path
) -> None:
    assert not buffer.is_missing()
    (tmp_path / FILE_NAME).rename(tmp_path / "elsewhere")
    assert buffer.is_missing()
    (tmp_path / FILE_NAME).touch()
    assert buffer.is_missing()


def test_entries_are_called_durable_after_they_were_written_and_synced(
    buffer: BufferedStore, store: RunStore, tmp_path: Path
) -> None:
    read_only(store, True)
    buffer.append(losses([1.0]))
    durable = threading.Event()
    found: list[list[float]] = []
    buffer.when_durable(lambda: (found.append(losses_in(tmp_path)), durable.set()))
    assert buffer.write_problem
    read_only(store, False)
    buffer.commit()
    assert durable.wait(60)
    assert found == [[1.0]]


def test_a_sync_that_fails_is_a_problem_of_the_disk_until_one_succeeds(
    buffer: BufferedStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def wait_for(problem: str) -> None:
        deadline = time.monotonic() + 60.0
        while buffer.write_problem != problem:
            assert time.monotonic() < deadline, buffer.write_problem
            buffer.commit()

    monkeypatch.setattr(file_sync, "SYNC_SECONDS", 0.01)
    with monkeypatch.context() as broken:
        broken.setattr(file_sync, "_sync", fail)
        buffer.append(losses([1.0]))
        buffer.commit()
        wait_for("input/output error")
        assert losses_in(tmp_path) == [1.0], "readers see it already"
    wait_for("")


def test_no_event_holds_a_secret(buffer: BufferedStore, tmp_path: Path) -> None:
    hush = "Zq9-hunter2X"
    buffer.secrets = [hush]
    tail = f"connect {hush}\nredis://:{hush}other@host/0"
    failure = Failure(0, "cpu:0", 1, "", f"No {hush}.", "a.py", tail, details=f"--token {hush}2")
    for event in (Notice(f"It said password={hush}3."), RunEnded("failed", hush, failure=failure)):
        buffer.append(event)
    buffer.commit()
    with RunReader(tmp_path) as reader:
        events = reader.events_after(0)
    assert len(events) >= 2
    assert "hunter2X" not in repr(events)
