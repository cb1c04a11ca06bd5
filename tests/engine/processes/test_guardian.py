"""The end of a supervisor: its guardian gives the workers time to save, and ends them then."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.files.save_progress import TimeToSave
from engine.processes import guardian, process_tree
from engine.processes.guardian import Guardian
from engine.processes.process import start_time

pytestmark = [
    pytest.mark.usefixtures("processes"),
    pytest.mark.skipif(not process_tree.ON_LINUX, reason="of Linux"),
]

SECONDS, LASTS = 2.0, 40.0
"""For the workers to leave, and how long the save takes that gets on."""


@pytest.fixture
def worker() -> Iterator[subprocess.Popen[bytes]]:
    """A worker that never leaves."""
    command = [sys.executable, "-c", "import signal; signal.pause()"]
    with subprocess.Popen(command) as process:
        yield process
        process.kill()


def test_a_worker_is_not_killed_while_its_save_gets_on(
    tmp_path: Path, worker: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "check points" / "step-00000003.tmp"
    folder.mkdir(parents=True)
    now = 1000.0

    def wait(_: object, seconds: float) -> None:
        nonlocal now
        now += seconds
        os.utime(folder, (min(now, 1000.0 + LASTS),) * 2)

    limit = functools.partial(TimeToSave, clock=lambda: now)
    monkeypatch.setattr(guardian, "_wait_for_one", wait)
    monkeypatch.setattr(guardian, "TimeToSave", limit)
    reading, writing = os.pipe()
    sockets = tmp_path / "traindeck-1"
    sockets.mkdir()
    control = {"address": f"{sockets}/control", "pid": os.getppid()}
    (tmp_path / "control.json").write_text(json.dumps(control))
    lines = f"seconds {SECONDS}\ncheckpoints {folder.parent}\n"
    lines += f"worker {worker.pid} {start_time(worker.pid)!r}\n"
    os.write(writing, lines.encode())
    os.close(writing)  # the supervisor was killed
    made = Guardian()
    assert not made.read(reading)
    os.close(reading)
    made.end_workers()
    assert worker.wait(60) < 0
    assert not sockets.exists()
    allowed = SECONDS + guardian.MARGIN_SECONDS
    assert LASTS + allowed <= now - 1000.0 < LASTS + 2 * allowed
