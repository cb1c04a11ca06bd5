"""A supervisor or a disk that stalls for ten minutes of a training: nothing is lost.

The ten minutes are reported at once, by a worker without a framework.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine import client
from engine.client import RunInfo
from engine.messages.commands import Pause
from engine.messages.events import Notice
from engine.processes.process import start_module
from engine.runs.run_state import RunState
from engine.runs.store.store_reader import RunReader
from tests.support import emitting_worker
from tests.support.emitting_worker import EMITTED, END, GO, REPORTS, SERIES, STEPS
from tests.support.ext4_image import ext4_image, freeze, thaw
from tests.support.runs import (
    TIMEOUT_SECONDS,
    events,
    spec,
    wait_for,
    wait_for_end,
    wait_until_gone,
)

pytestmark = [
    pytest.mark.usefixtures("processes"),
    pytest.mark.skipif(os.name != "posix", reason="it halts with signals"),
]


class StalledRun:
    """A run whose worker waits for the test's notes."""

    def __init__(self, notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def start(module: str, *arguments: str, **named: Any) -> subprocess.Popen[bytes]:
            assert module == "engine.supervisor"
            return start_module("tests.support.emitting_supervisor", *arguments, **named)

        notes.mkdir()
        monkeypatch.setenv(emitting_worker.NOTES, str(notes))
        monkeypatch.setattr(client, "start_module", start)
        self._notes = notes
        self.id = client.start(spec("digits", "torch/single", cold_start=True))
        self.info = wait_for(self.id, lambda info: info.state is RunState.RUNNING)

    def emit(self) -> None:
        """Let the worker report ten minutes, and wait until it has done so."""
        (self._notes / GO).touch()
        wait_until((self._notes / EMITTED).exists)
        wait_until(lambda: bool((self._notes / EMITTED).read_text()))
        print((self._notes / EMITTED).read_text())

    def end(self) -> RunInfo:
        (self._notes / END).touch()
        info = wait_for_end(self.id)
        wait_until_gone(info)
        return info


def wait_until(condition: Callable[[], bool]) -> None:
    deadline, pause = time.monotonic() + TIMEOUT_SECONDS, threading.Event()
    while not condition():
        assert time.monotonic() < deadline
        pause.wait(0.02)


def stored_points(folder: Path) -> int:
    with RunReader(folder) as reader:
        counts = reader.counts()
    return sum(counts.get(name, 0) for name in SERIES)


def assert_nothing_is_lost(info: RunInfo) -> None:
    assert info.state is RunState.FINISHED, info.reason
    assert not [event for event in events(info) if isinstance(event, Notice)]
    steps = np.arange(1, REPORTS * STEPS + 1)
    times = np.concatenate(
        [
            np.linspace(found.begin, found.end, STEPS + 1)[1:]
            for found in map(emitting_worker.report, range(REPORTS))
        ]
    )
    with RunReader(info.folder) as reader:
        for name in SERIES:
            found = reader.points_after(name, 0)
            assert np.array_equal(found.step, steps), name
            assert np.array_equal(found.value, steps / 7), name
            assert np.array_equal(found.time, times), "each point has its own time"


def test_a_supervisor_that_was_halted_for_ten_minutes_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = StalledRun(tmp_path / "notes", monkeypatch)
    os.kill(run.info.status.supervisor_pid, signal.SIGSTOP)
    run.emit()
    os.kill(run.info.status.supervisor_pid, signal.SIGCONT)
    begun = time.monotonic()
    client.send(run.id, Pause())
    print(f"a command is answered after {time.monotonic() - begun:.2f} s")
    assert stored_points(run.info.folder) < REPORTS * STEPS * len(SERIES), "it did not wait for all"
    info = run.end()
    print(f"all is stored after {time.monotonic() - begun:.2f} s")
    assert_nothing_is_lost(info)


@pytest.mark.nightly
def test_a_disk_that_was_frozen_for_ten_minutes_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = tmp_path / "disk"
    with ext4_image(disk):
        monkeypatch.setenv("TRAINDECK_HOME", str(disk / "home"))
        run = StalledRun(tmp_path / "notes", monkeypatch)
        freeze(disk)
        run.emit()
        thaw(disk)
        assert_nothing_is_lost(run.end())
