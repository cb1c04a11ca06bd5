"""The end of a supervisor: its guardian gives the workers time to save, and ends them then."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.files.save_progress import mark
from engine.processes import guardian, process_tree
from engine.processes.guardian import Guardian
from engine.processes.process import start_time

pytestmark = [
    pytest.mark.usefixtures("processes"),
    pytest.mark.skipif(not process_tree.ON_LINUX, reason="of Linux"),
]

SECONDS = 2.0
"""For the workers to leave, and for a save to get on: no pause of a busy machine is so long."""

MARKS = 40
MARK_SECONDS = 0.1


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
    monkeypatch.setattr(guardian, "MARGIN_SECONDS", 0.2)
    folder = tmp_path / "check points" / "step-00000003.tmp"
    folder.mkdir(parents=True)
    reading, writing = os.pipe()
    lines = f"seconds {SECONDS}\ncheckpoints {folder.parent}\n"
    lines += f"worker {worker.pid} {start_time(worker.pid)!r}\n"
    os.write(writing, lines.encode())
    os.close(writing)  # the supervisor was killed
    made = Guardian()
    assert not made.read(reading)
    os.close(reading)
    begun, marked = time.monotonic(), 0.0

    def save() -> None:
        nonlocal marked
        for _ in range(MARKS):
            mark(folder)
            marked = time.monotonic()
            time.sleep(MARK_SECONDS)

    saving = threading.Thread(target=save)
    saving.start()
    made.end_workers()
    ended = time.monotonic()
    saving.join()
    assert worker.wait(60) < 0
    assert marked - begun > SECONDS + guardian.MARGIN_SECONDS, (
        "it saved for longer than it has time to leave"
    )
    assert ended > marked, "and was not killed in it"
