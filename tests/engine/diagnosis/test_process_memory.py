"""What the processes of a run hold: also those below its workers, and shared pages only once."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from engine.diagnosis import process_memory
from engine.diagnosis.device_metrics import PROCESS_MEMORY, DeviceRecorder
from engine.diagnosis.process_memory import Measurement, ProcessMemory, memory_of
from engine.messages.events import Points
from engine.processes import process_tree
from engine.processes.process import start_time
from engine.telemetry.snapshot import Snapshot

MIB = 2**20
SECONDS = 40.0
"""Longest wait; only a test that fails gets there."""

HOLDER = """
import os, sys
if sys.argv[1] == "below":  # a process that its parent, the worker, only waits for
    import subprocess
    sys.exit(subprocess.call([sys.executable, "-c", sys.argv[2], "alone", ""]))
held = bytearray(b"x") * (96 * 2**20)
if sys.argv[1] == "forks" and os.fork() == 0:
    sys.stdin.read()
    os._exit(0)
print("holds", flush=True)
sys.stdin.read()
"""


@contextmanager
def worker(kind: str) -> Iterator[process_tree.Identity]:
    command = [sys.executable, "-c", HOLDER, kind, HOLDER]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        yield child.pid, start_time(child.pid)


@pytest.mark.usefixtures("processes")
@pytest.mark.skipif(not process_tree.ON_LINUX, reason="proportional sizes are Linux'")
@pytest.mark.parametrize("kind", ["alone", "forks", "below"])
def test_the_pages_of_all_processes_count_once(kind: str) -> None:
    with worker(kind) as one:
        found = memory_of([one])
        stranger = memory_of([(one[0], one[1] + 1.0)])
    assert found is not None
    assert 96 * MIB < found < 160 * MIB
    assert stranger is None, "a process that has got the number later is not of the run"
    assert memory_of([one]) is None, "it has ended"


def test_a_run_that_trains_is_measured_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_memory, "FIRST_SECONDS", 0.001)
    monkeypatch.setattr(process_memory, "EVERY_SECONDS", 0.001)
    asked, sizes = threading.Event(), iter([None, 5, 7])

    def measure(workers: object) -> int | None:
        size = next(sizes, None)
        if size is None and seen:
            asked.set()
        seen.append(size)
        return size

    seen: list[int | None] = []
    monkeypatch.setattr(process_memory, "memory_of", measure)
    measured = ProcessMemory(lambda: [(1, 0.0)])
    assert asked.wait(SECONDS)
    measured.close()
    newest = measured.take()
    assert newest is not None
    assert (newest.size, measured.take()) == (7, None)


def test_a_measurement_is_a_point_with_the_time_at_which_it_was_taken() -> None:
    recorder = DeviceRecorder(("cpu:0",))
    empty = Snapshot(time=50.0, devices=())
    made = recorder.metrics(empty, 7, Measurement(48.5, 300)).points
    assert made == [Points(PROCESS_MEMORY, [7], [300.0], [48.5])]
    assert recorder.metrics(empty, 8).points == []
