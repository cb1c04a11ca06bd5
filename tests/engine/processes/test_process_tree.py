"""Processes end with everything below them, and no other process gets a signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from engine.processes import process_tree
from engine.processes.process import start_time

pytestmark = [
    pytest.mark.usefixtures("processes"),
    pytest.mark.skipif(not process_tree.ON_LINUX, reason="of Linux"),
]

SECONDS = 60.0
"""Longest wait; only a test that fails gets there."""

ITS_SECONDS = f"{os.getpid()}.125"
"""They tell the processes of this test from all others."""

STARTS_FOR_EVER = """
import subprocess, sys, time
while True:
    subprocess.Popen(["sleep", sys.argv[1]], start_new_session=True)
    print("started", flush=True)
    time.sleep(0.001)
"""


def identity(pid: int) -> process_tree.Identity:
    return pid, start_time(pid)


@pytest.fixture
def busy() -> Iterator[subprocess.Popen[str]]:
    """A process that starts one more all the time, each in a session of its own."""
    command = [sys.executable, "-c", STARTS_FOR_EVER, ITS_SECONDS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def test_what_is_started_while_a_tree_is_killed_is_killed_too(
    busy: subprocess.Popen[str],
) -> None:
    process_tree.kill([identity(busy.pid)])
    assert busy.wait(SECONDS) == -signal.SIGKILL
    deadline = time.monotonic() + SECONDS
    while any(ITS_SECONDS in process.info["cmdline"] for process in _all()):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _all() -> list[psutil.Process]:
    found = psutil.process_iter(["cmdline"])
    return [process for process in found if process.info["cmdline"]]


def test_a_process_that_has_only_the_pid_gets_no_signal() -> None:
    with subprocess.Popen(["sleep", "1000"]) as process:
        pid, created = identity(process.pid)
        process_tree.kill([(pid, created + 1.0)])
        process_tree.send((pid, created + 1.0), signal.SIGKILL)
        assert process_tree.is_alive((pid, created))
        process_tree.send((pid, created), signal.SIGTERM)
        assert process.wait(SECONDS) == -signal.SIGTERM
        assert not process_tree.is_alive((pid, created))


def test_processes_are_asked_before_they_are_killed(tmp_path: Path) -> None:
    code = (
        "import pathlib, signal, sys, time; asked = pathlib.Path(sys.argv[1] + '-asked'); "
        "signal.signal(signal.SIGTERM, lambda *_: asked.touch()); "
        "pathlib.Path(sys.argv[1]).touch(); time.sleep(1000); time.sleep(1000)"
    )
    ready = tmp_path / "stubborn"
    polite = subprocess.Popen(["sleep", "1000"])
    stubborn = subprocess.Popen([sys.executable, "-c", code, str(ready)])
    deadline = time.monotonic() + SECONDS
    while not ready.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(polite.pid, signal.SIGSTOP)  # it is halted, and ends nevertheless
    process_tree.end([identity(polite.pid), identity(stubborn.pid)], 3.0)
    assert polite.wait(SECONDS) == -signal.SIGTERM
    assert stubborn.wait(SECONDS) == -signal.SIGKILL
    assert (tmp_path / "stubborn-asked").exists()
