"""What the system is asked before a run."""

from __future__ import annotations

import os
import resource
import shutil
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.planning import facts


def test_a_disk_is_written_and_nothing_stays(tmp_path: Path) -> None:
    found = facts.disk(tmp_path, 0.1, lambda: False)
    assert (found.problem, found.folder) == ("", tmp_path)
    assert 0 < found.free <= found.total
    assert found.bytes_per_second > 0
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_the_runs_need_not_exist(tmp_path: Path) -> None:
    folder = tmp_path / "home" / "runs"
    found = facts.disk(folder, 0.0, lambda: False)
    assert (found.problem, found.folder, folder.exists()) == ("", folder, False)


def test_what_the_disk_answers_is_the_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: Any) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "fsync", refused)
    found = facts.disk(tmp_path, 0.1, lambda: False)
    assert (found.problem, found.bytes_per_second) == ("read-only file system", 0.0)
    assert found.total > 0


def test_the_limits_are_those_of_this_process() -> None:
    found = facts.limits()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert (found.open_files, found.most_open_files) == (soft, hard)


def test_a_clock_that_is_set_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = facts.ClockWatch()
    assert abs(watch.facts().jump) < 60
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 3600)
    assert watch.facts().jump == pytest.approx(3600, abs=60)


def test_shared_memory_is_asked_for_and_may_be_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def usage(folder: str) -> SimpleNamespace:
        asked.append(folder)
        if len(asked) > 1:
            raise FileNotFoundError(folder)
        return SimpleNamespace(free=64 * 2**20)

    monkeypatch.setattr(shutil, "disk_usage", usage)
    assert facts.shared_memory_free() == 64 * 2**20
    assert facts.shared_memory_free() == -1
    assert asked == ["/dev/shm"] * 2
