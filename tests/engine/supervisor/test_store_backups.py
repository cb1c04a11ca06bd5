"""Tests `engine.supervisor.store_backups`: when the store of a run is backed up."""

from __future__ import annotations

import errno
import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from engine.messages.events import CheckpointSaved, Paused
from engine.runs.store.run_store import FORMAT, RunStore, decode_event
from engine.runs.store.store_backup import GivenUp, open_backup
from engine.supervisor import store_backups
from engine.supervisor.buffered_store import BufferedStore
from engine.supervisor.store_backups import StoreBackups

SAVED = CheckpointSaved(path="checkpoints/step-00000012", step=12, epoch=1, bytes=5, seconds=0.1)


class Copies:
    """Counts the copies that are asked for, in the place of `back_up`."""

    def __init__(self) -> None:
        self.count = 0
        self.made = threading.Semaphore(0)
        self.error: Exception | None = None

    def __call__(self, folder: Path, is_given_up: Callable[[], bool]) -> None:
        self.count += 1
        self.made.release()
        if self.error is not None:
            raise self.error

    def wait(self) -> None:
        assert self.made.acquire(timeout=60)


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> Copies:
    made = Copies()
    monkeypatch.setattr(store_backups, "back_up", made)
    return made


def test_checkpoints_in_quick_succession_have_one_backup_and_the_end_has_one(
    copies: Copies, tmp_path: Path
) -> None:
    backups = StoreBackups(tmp_path)
    backups.ask()
    copies.wait()
    for _ in range(5):
        backups.ask()
    backups.end(last=True)
    assert copies.count == 2


def test_what_was_asked_for_too_early_comes_later(
    copies: Copies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_backups, "SECONDS", 0.05)
    backups = StoreBackups(tmp_path)
    backups.ask()
    copies.wait()
    backups.ask()
    copies.wait()
    backups.end(last=False)
    assert copies.count == 2


def test_a_run_without_a_checkpoint_has_one_at_its_end(copies: Copies, tmp_path: Path) -> None:
    StoreBackups(tmp_path).end(last=False)
    assert copies.count == 0
    StoreBackups(tmp_path).end(last=True)
    assert copies.count == 1


def test_a_failure_is_told_once_and_ends_nothing(
    copies: Copies,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(store_backups, "SECONDS", 0.0)
    copies.error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    backups = StoreBackups(tmp_path)
    for _ in range(3):
        backups.ask()
        copies.wait()
    backups.end(last=True)
    warnings = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert [each.getMessage() for each in warnings] == [
        "The store was not backed up: [Errno 28] No space left on device."
    ]


def test_the_last_backup_is_given_up_when_it_takes_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_up = []

    def slow(folder: Path, is_given_up: Callable[[], bool]) -> None:
        while not is_given_up():
            time.sleep(0.001)
        given_up.append(folder)
        raise GivenUp

    monkeypatch.setattr(store_backups, "back_up", slow)
    monkeypatch.setattr(store_backups, "LAST_SECONDS", 0.05)
    StoreBackups(tmp_path).end(last=True)
    assert given_up == [tmp_path]


def test_a_copy_that_is_made_ends_for_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, ends = threading.Event(), []

    def back_up(folder: Path, is_given_up: Callable[[], bool]) -> None:
        if begun.is_set():
            ends.append("last")
            return
        begun.set()
        while not is_given_up():
            time.sleep(0.001)
        ends.append("given up")
        raise GivenUp

    monkeypatch.setattr(store_backups, "back_up", back_up)
    monkeypatch.setattr(store_backups, "LAST_SECONDS", 60.0)
    backups = StoreBackups(tmp_path)
    backups.ask()
    assert begun.wait(60)
    backups.end(last=True)
    assert ends == ["given up", "last"]


def test_a_store_asks_after_a_checkpoint_and_a_rewind_once_they_are_committed(
    store: RunStore, tmp_path: Path, copies: Copies, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_backups, "SECONDS", 0.0)
    buffer = BufferedStore(tmp_path, store)
    buffer.append(Paused(3))
    buffer.commit()
    buffer.append(SAVED)
    assert copies.count == 0
    buffer.commit()
    copies.wait()
    buffer.rewind(2)
    buffer.commit()
    copies.wait()
    buffer.close()
    buffer.backups.end(last=False)
    assert copies.count == 2


def test_the_last_backup_has_the_last_event(store: RunStore, tmp_path: Path) -> None:
    buffer = BufferedStore(tmp_path, store)
    buffer.append(SAVED)
    buffer.commit()
    buffer.close()
    buffer.backups.end(last=True)
    with closing(open_backup(tmp_path)) as backup:
        [(body,)] = backup.execute("SELECT body FROM event").fetchall()
    assert decode_event(body, FORMAT) == SAVED
