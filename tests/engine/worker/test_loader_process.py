"""A loader process writes its stacks, and leaves signals to its worker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from engine.diagnosis.stack_dumps import working_threads
from engine.processes import process
from engine.system import paths
from engine.worker import environment

pytestmark = pytest.mark.usefixtures("processes")

HELPER = """
import sys
from engine.worker import loader_process
def work():
    print("at work", flush=True)
    sys.stdin.read()
loader_process.begin()
work()
"""


@pytest.mark.skipif(os.name != "posix", reason="stacks are asked for with a signal")
def test_a_loader_process_writes_its_stacks_beside_those_of_its_worker(tmp_path: Path) -> None:
    stacks = tmp_path / "stacks-rank1.txt"
    with subprocess.Popen(
        [sys.executable, "-c", HELPER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=process.PROJECT,
        env=os.environ | {environment.STACKS: str(stacks)},
    ) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == b"at work\n"
        assert started.pid in process.descendants(os.getpid())
        started.send_signal(signal.SIGTERM)  # a shutdown: the worker decides
        process.ask_for_stacks(started.pid)
        file = paths.helper_stacks_file(stacks, started.pid)
        while not file.read_bytes().endswith(b"<module>\n"):
            assert started.poll() is None
            time.sleep(0.01)
        [frames] = working_threads(file.read_text())
        assert [frame.function for frame in frames] == ["work", "<module>"]
        started.communicate(timeout=120)
    assert started.returncode == 0
    assert not stacks.exists()
    assert process.descendants(started.pid) == []
