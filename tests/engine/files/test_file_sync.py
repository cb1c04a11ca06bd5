"""A file is synced in time, and nothing is called durable before the disk has it."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.files import file_sync
from engine.files.file_sync import FileSync

SECONDS = 60.0
"""Longest wait; only a test that fails waits so long."""


class Disk:
    """Replaces the sync of the system: it can be slow, or fail."""

    def __init__(self) -> None:
        self.syncs = 0
        self.error: OSError | None = None
        self.may_end = threading.Event()
        self.may_end.set()
        self.begun = threading.Semaphore(0)

    def sync(self, descriptor: int) -> None:
        os.fstat(descriptor)  # it is open
        self.begun.release()
        assert self.may_end.wait(SECONDS)
        self.syncs += 1
        if self.error:
            raise self.error


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk()
    monkeypatch.setattr(file_sync, "_sync", disk.sync)
    return disk


@pytest.fixture
def synced(disk: Disk, tmp_path: Path) -> Iterator[FileSync]:
    file = tmp_path / "file"
    file.touch()
    sync = FileSync(file)
    yield sync
    disk.error = None
    disk.may_end.set()
    sync.close(SECONDS)


def test_what_is_written_is_synced_without_being_asked_for(synced: FileSync, disk: Disk) -> None:
    for _ in range(3):
        synced.written()
        assert disk.begun.acquire(timeout=SECONDS)


def test_a_slow_disk_makes_no_writer_wait(synced: FileSync, disk: Disk) -> None:
    disk.may_end.clear()
    durable = threading.Event()
    synced.written([durable.set])
    assert disk.begun.acquire(timeout=SECONDS)
    synced.written()  # returns while the sync runs
    assert not durable.is_set()
    disk.may_end.set()
    assert durable.wait(SECONDS)


def test_what_is_written_during_a_sync_needs_the_next_one(synced: FileSync, disk: Disk) -> None:
    disk.may_end.clear()
    synced.written()
    assert disk.begun.acquire(timeout=SECONDS)
    syncs: list[int] = []
    durable = threading.Event()
    synced.written([lambda: syncs.append(disk.syncs), durable.set])
    disk.may_end.set()
    assert durable.wait(SECONDS)
    assert syncs == [2]


def test_a_sync_that_fails_makes_nothing_durable_and_is_tried_again(
    synced: FileSync, disk: Disk
) -> None:
    disk.error = OSError(errno.EIO, os.strerror(errno.EIO))
    durable = threading.Event()
    synced.written([durable.set])
    assert disk.begun.acquire(timeout=SECONDS)
    assert disk.begun.acquire(timeout=SECONDS), "it is tried again"
    assert synced.problem == "input/output error"
    assert not durable.is_set()
    disk.error = None
    assert durable.wait(SECONDS)
    assert synced.problem == ""


def test_at_the_end_the_last_write_is_synced(disk: Disk, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    sync = FileSync(file)
    sync.written()
    sync.written()
    assert sync.close(SECONDS)
    assert disk.syncs


def test_the_end_does_not_wait_for_ever(disk: Disk, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    sync = FileSync(file)
    disk.may_end.clear()
    sync.written()
    assert not sync.close(0.01)
    disk.may_end.set()


def test_a_file_that_cannot_be_opened_is_a_problem_and_no_exception(tmp_path: Path) -> None:
    sync = FileSync(tmp_path / "missing")
    sync.written()
    assert not sync.close(SECONDS)
    assert sync.problem == "no such file or directory"
