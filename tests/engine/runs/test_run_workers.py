"""The workers of active runs with their last reports, as the stores hold them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from engine import client
from engine.messages.events import (
    AttemptStarted,
    Event,
    Metrics,
    Paused,
    Points,
    RunEnded,
    WorkerStarted,
)
from engine.processes.process import start_time
from engine.runs.run_workers import RunWorkers
from engine.runs.store.run_store import RunStore
from engine.spec.run_spec import RunSpec
from engine.telemetry.memory_attribution import Worker
from tests.support.recorded_runs import new_run_folder


@pytest.fixture
def store() -> Iterator[RunStore]:
    spec = RunSpec(recipe="digits", strategy="torch/ddp", devices=("GPU-a", "GPU-b"))
    made = RunStore(new_run_folder(spec))
    yield made
    made.close()


def add(store: RunStore, *events: Event) -> None:
    for event in events:
        store.append(event, time.time())
    store.commit()


def begin(store: RunStore, first_pid: int = 100, attempt: int = 1) -> None:
    pid = os.getpid()
    workers = [WorkerStarted(rank, first_pid + rank, (f"GPU-{'ab'[rank]}",)) for rank in (0, 1)]
    add(store, AttemptStarted(attempt, pid, start_time(pid)), *workers)


def report(store: RunStore, rank: int, allocated: float, reserved: float) -> None:
    now = time.time()
    points = [
        Points(f"rank/{rank}/memory_allocated", [1], [allocated]),
        Points(f"rank/{rank}/memory_reserved", [1], [reserved]),
    ]
    add(store, Metrics(now, now, points))


def said(found: list[Worker]) -> list[tuple[int, tuple[str, ...], float | None, float | None]]:
    return [(each.pid, each.devices, each.allocated, each.reserved) for each in found]


def test_each_worker_has_its_devices_and_its_newest_report(store: RunStore) -> None:
    workers = RunWorkers()
    begin(store)
    nothing = [(100, ("GPU-a",), None, None), (101, ("GPU-b",), None, None)]
    assert said(workers.read(client.runs())) == nothing
    report(store, 0, 5.0, 7.0)
    report(store, 0, 6.0, 8.0)
    found = workers.read(client.runs())
    assert said(found) == [(100, ("GPU-a",), 6.0, 8.0), nothing[1]]
    assert found[0].run == client.runs()[0].title
    assert abs(found[0].start_event_time - time.time()) < 60


def test_a_new_attempt_has_new_workers_and_no_old_reports(store: RunStore) -> None:
    workers = RunWorkers()
    begin(store)
    report(store, 0, 5.0, 7.0)
    assert workers.read(client.runs())[0].allocated == 5.0
    begin(store, first_pid=200, attempt=2)
    assert [(each.pid, each.allocated) for each in workers.read(client.runs())] == [
        (200, None),
        (201, None),
    ]


def test_a_pause_that_freed_the_gpus_makes_the_report_old(store: RunStore) -> None:
    begin(store)
    report(store, 0, 5.0, 7.0)
    add(store, Paused(1, freed_devices=True))
    assert RunWorkers().read(client.runs())[0].allocated is None


def test_a_run_that_is_over_has_no_workers(store: RunStore) -> None:
    begin(store)
    workers = RunWorkers()
    assert workers.read(client.runs())
    add(store, RunEnded("stopped", ""))
    assert workers.read(client.runs()) == []


def test_a_store_that_is_gone_has_no_workers(store: RunStore) -> None:
    begin(store)
    runs = client.runs()
    (runs[0].folder / "run.sqlite").unlink()
    assert RunWorkers().read(runs) == []
