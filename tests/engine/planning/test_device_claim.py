"""Tests `engine.planning.device_claim`: runs wait for what is measured, and it waits for none."""

from __future__ import annotations

import os

import pytest

from engine.planning import device_claim
from engine.planning.device_claim import DevicesInUse, claimed_devices, runs_on
from engine.planning.memory import batch_search, memory_estimate
from engine.processes.machine import this_machine
from engine.processes.process import start_time
from engine.runs import device_queue
from engine.runs.device_queue import MEASUREMENT, Ticket
from engine.spec.run_spec import RunSpec
from engine.telemetry.snapshot import Snapshot
from tests.support.sentences import sentence

GPU = "GPU-1"


@pytest.fixture(autouse=True)
def _no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_claim, "snapshot_once", lambda: Snapshot(time=0, devices=()))


def ticket(run: str, *devices: str) -> Ticket:
    """Return the ticket of another process that is alive."""
    pid = os.getppid()
    return Ticket(run, pid, start_time(pid), devices, devices, machine=this_machine())


def test_a_run_waits_for_a_measurement() -> None:
    run = ticket("7", GPU, "GPU-2")
    with claimed_devices(("cpu:0", GPU)):
        ahead = device_queue.enter(run)
        assert device_queue.describe(run, ahead, {}) == sentence(
            "queued-behind-measurement-process-on-gpu-1", getpid=os.getpid()
        )
    assert device_queue.enter(run) == []


def test_a_gpu_that_a_run_uses_is_not_measured() -> None:
    device_queue.enter(ticket("7", GPU))
    with pytest.raises(DevicesInUse, match="Run 7 uses GPU-1 now"), claimed_devices((GPU,)):
        pytest.fail("it is in use")
    assert [each.run for each in device_queue.read()] == ["7"]


def test_two_measurements_do_not_disturb_each_other() -> None:
    device_queue.enter(ticket(f"{MEASUREMENT} (process 5)", GPU))
    with (
        pytest.raises(
            DevicesInUse, match=sentence("another-measurement-process-uses-gpu-1").pattern
        ),
        claimed_devices((GPU,)),
    ):
        pytest.fail("it is in use")
    with claimed_devices(("GPU-2",)):
        assert len(device_queue.read()) == 2
    assert len(device_queue.read()) == 1


def test_cpu_devices_are_shared_and_their_runs_are_known() -> None:
    device_queue.enter(ticket("7", "cpu:0"))
    with claimed_devices(("cpu:0",)):
        assert [each.run for each in device_queue.read()] == ["7"]
    assert runs_on(("cpu:0", "cpu:1")) == ["7"]
    assert runs_on(("cpu:1",)) == []


def test_what_would_fill_the_memory_of_a_gpu_in_use_is_not_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory_estimate, "available_memory", lambda *_: {})
    device_queue.enter(ticket("7", GPU))
    spec = RunSpec(recipe="digits", strategy="torch/single", devices=(GPU,))
    problems = [
        batch_search.search(spec, 0, lambda news: None, lambda: False).problem,
        memory_estimate.estimate(spec, 0, lambda news: None, lambda: False).problem,
    ]
    assert all(problem.startswith("Run 7 uses GPU-1 now") for problem in problems)
