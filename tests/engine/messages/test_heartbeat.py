"""The supervisor's sign of life."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from engine.messages.heartbeat import Heartbeat, last_beat


def test_a_run_without_a_supervisor_has_no_heartbeat(tmp_path: Path) -> None:
    assert last_beat(tmp_path) == 0.0


def test_a_running_loop_has_a_heartbeat_until_it_ends(tmp_path: Path) -> None:
    heartbeat = Heartbeat(tmp_path)
    before = time.time()
    heartbeat.beat()
    assert last_beat(tmp_path) == pytest.approx(before, abs=1.0)
    heartbeat.end()
    assert last_beat(tmp_path) == 0.0


def test_a_fast_loop_does_not_wear_out_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heartbeat = Heartbeat(tmp_path)
    monkeypatch.setattr("engine.messages.heartbeat.time.monotonic", lambda: 100.0)
    heartbeat.beat()
    (tmp_path / "heartbeat").unlink()
    heartbeat.beat()
    assert last_beat(tmp_path) == 0.0
    monkeypatch.setattr("engine.messages.heartbeat.time.monotonic", lambda: 101.0)
    heartbeat.beat()
    assert last_beat(tmp_path) > 0.0


def test_errors_of_the_disk_are_ignored(tmp_path: Path) -> None:
    Heartbeat(tmp_path / "gone").beat()
