"""What the processes of a run hold: also those below its workers, shared pages only once, and those
of the template that has forked them too."""

from __future__ import annotations

import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from engine.diagnosis import device_metrics, process_memory
from engine.diagnosis.device_metrics import PROCESS_MEMORY
from engine.diagnosis.process_memory import Measurement, ProcessMemory, _Pages, _together, memory_of
from engine.messages.events import Points
from engine.processes import process_tree
from engine.processes.process import start_time

MIB = 2**20
SECONDS = 60.0
"""Longest wait; only a test that fails gets there."""

HOLDER = """
import os, sys
if sys.argv[1] == "below":  # a process that its parent, the worker, only waits for
    import subprocess
    sys.exit(subprocess.call([sys.executable, "-c", sys.argv[2], "alone", ""]))
held = bytearray(b"x") * (96 * 2**20)
child = os.fork() if sys.argv[1] == "forks" else 0
if sys.argv[1] == "forks" and not child:
    sys.stdin.read()
    os._exit(0)
print(child, flush=True)
sys.stdin.read()
"""


@contextmanager
def holder(kind: str) -> Iterator[tuple[process_tree.Identity, int]]:
    """A process that holds memory, in itself or below, and the number of its fork; 0: none."""
    command = [sys.executable, "-c", HOLDER, kind, HOLDER]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        fork = int(child.stdout.readline())
        yield (child.pid, start_time(child.pid)), fork


@pytest.mark.usefixtures("processes")
@pytest.mark.skipif(not process_tree.ON_LINUX, reason="proportional sizes are Linux'")
@pytest.mark.parametrize("kind", ["alone", "forks", "below"])
def test_the_pages_of_all_processes_count_once(kind: str) -> None:
    with holder(kind) as (one, _):
        found = memory_of([one])
        stranger = memory_of([(one[0], one[1] + 1.0)])
    assert found is not None
    assert 96 * MIB < found < 160 * MIB
    assert stranger is None, "a process that has got the number later is not of the run"
    assert memory_of([one]) is None, "it has ended"


@pytest.mark.usefixtures("processes")
@pytest.mark.skipif(not process_tree.ON_LINUX, reason="it needs the kinds of pages of Linux")
def test_a_forked_worker_holds_what_it_would_have_made_itself() -> None:
    """A warm and a cold start of one run have the same memory, whatever the template's other forks
    share."""
    with holder("forks") as (_, fork):
        found = memory_of([(fork, start_time(fork))])
    assert found is not None
    assert 96 * MIB < found < 160 * MIB


def test_what_is_shared_counts_once() -> None:
    """A worker with 60 of its own, 40 of the template, and two loaders that it has forked."""
    alone = _Pages(anonymous=100, proportional=100, private=100, shared_memory=0)
    assert _together([alone]) == 100
    forked = _Pages(anonymous=100, proportional=80, private=60, shared_memory=0)
    assert _together([forked]) == 100, "the template's part too"
    worker = _Pages(anonymous=100, proportional=30, private=0, shared_memory=8)
    loader = _Pages(anonymous=110, proportional=40, private=10, shared_memory=4)
    assert _together([worker, loader, loader]) == 100 + 2 * 10 + 16
    rank = _Pages(anonymous=100, proportional=100, private=100, shared_memory=0)
    assert _together([rank, rank]) == 200, "two cold ranks share nothing"


def test_the_first_measurement_is_at_the_first_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_memory, "memory_of", lambda workers: 7)
    told: queue.Queue[Measurement] = queue.Queue()
    stepped = threading.Event()

    def workers() -> list[process_tree.Identity]:
        assert stepped.is_set(), "nothing is measured before"
        return [(1, 0.0)]

    measured = ProcessMemory(workers, told.put)
    stepped.set()
    measured.note_first_step()
    assert told.get(timeout=SECONDS).size == 7
    assert told.get(timeout=SECONDS).size == 7, "and again, without another call"
    measured.close()


def test_the_pauses_grow_and_no_measurement_is_told_where_none_was_possible(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process_memory, "FIRST_SECONDS", 0.001)
    monkeypatch.setattr(process_memory, "EVERY_SECONDS", 0.004)
    monkeypatch.setattr(process_memory, "REST", 0)
    sizes = iter([None, 5, None, 7])
    monkeypatch.setattr(process_memory, "memory_of", lambda workers: next(sizes, 9))
    told: queue.Queue[Measurement] = queue.Queue()
    measured = ProcessMemory(lambda: [(1, 0.0)], told.put)
    measured.note_first_step()
    assert [told.get(timeout=SECONDS).size for _ in range(3)] == [5, 7, 9]
    measured.close()


def test_a_measurement_is_a_point_with_the_time_at_which_it_was_taken() -> None:
    made = device_metrics.process_memory(Measurement(48.5, 300), 7).points
    assert made == [Points(PROCESS_MEMORY, [7], [300.0], [48.5])]
