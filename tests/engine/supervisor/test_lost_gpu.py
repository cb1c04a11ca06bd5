"""A run loses its GPU: the supervisor ends the workers, which may hang, and says why."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import psutil
import pytest

from engine.diagnosis import deadlines, device_watch
from engine.messages.channel import Channel, Server
from engine.messages.events import (
    Alarm,
    Progress,
    RunEnded,
    TrainingStarted,
    WorkerFailed,
)
from engine.runs.store import RunStore
from engine.runs.store_reader import RunReader
from engine.spec.run_spec import RunSpec
from engine.supervisor.buffered_store import BufferedStore
from engine.supervisor.inbox import Inbox, MessageReceived, SnapshotReceived
from engine.supervisor.queue_admission import QueueAdmission
from engine.supervisor.supervisor import Supervisor
from engine.telemetry.snapshot import DeviceSnapshot, Snapshot
from tests.support.recorded_runs import new_run_folder, this_process_supervises
from tests.support.runs import spec

pytestmark = pytest.mark.usefixtures("processes")

GPU = "GPU-11111111-2222-3333-4444-555555555555"
HANGS = """
import signal, threading
import torch
signal.signal(signal.SIGTERM, signal.SIG_IGN)
threading.Event().wait()

def model(): ...
def datasets(): ...
"""


class Attempt:
    """A real supervisor with a worker that hangs; the test makes up messages and snapshots."""

    def __init__(self, wanted: RunSpec) -> None:
        self.folder = new_run_folder(wanted)
        self.store = RunStore(self.folder)
        self.store.append(this_process_supervises(), time.time())
        self.inbox = Inbox()
        self.server = Server(self.folder, self.inbox.connected)
        admission = QueueAdmission(self.folder, wanted)
        buffer = BufferedStore(self.folder, self.store)
        self.supervisor = Supervisor(self.folder, wanted, buffer, self.inbox, admission)

    def receive(self, *messages: Any) -> None:
        for message in messages:
            self.inbox.put(MessageReceived(0, cast(Channel, None), message))

    def take_snapshot(self, lost: str | None) -> None:
        device = DeviceSnapshot(id=GPU, kind="gpu", label="3", name="G", lost=lost)
        self.inbox.put(SnapshotReceived(Snapshot(time=time.time(), devices=(device,))))


@pytest.fixture
def attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Attempt]:
    """A run that trains on GPU."""
    monkeypatch.setattr(deadlines, "FAILURE_GRACE_SECONDS", 0.0)
    recipe = tmp_path / "hangs.py"
    recipe.write_text(HANGS)
    made = Attempt(spec(str(recipe), "torch/single", (GPU,)))
    made.receive(TrainingStarted(0, 10, 3, 1, 1234), Progress(1, 3, 100.0, 0.0, 60.0))
    yield made
    made.server.close()
    made.store.close()


def alarms(folder: Path) -> list[Alarm]:
    with RunReader(folder) as reader:
        return [e.event for e in reader.events_after(0) if isinstance(e.event, Alarm)]


def failed_because_of_the_gpu(ended: RunEnded) -> bool:
    return ended.state == "failed" and ended.reason.startswith(
        f"GPU 3 ({GPU}) stopped answering, so the run was ended. GPU is lost. There is no check"
    )


def test_the_run_ends_with_that_reason_and_no_worker_is_left(
    attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_watch, "STEP_PATIENCE", 0.0)
    attempt.take_snapshot(None)
    attempt.take_snapshot("GPU is lost")
    attempt.take_snapshot("GPU is lost")
    ended = attempt.supervisor.run()
    assert failed_because_of_the_gpu(ended), ended.reason
    assert ended.failure is not None
    assert (ended.failure.rank, ended.failure.device) == (0, GPU)
    assert [(alarm.kind, alarm.raised) for alarm in alarms(attempt.folder)] == [("lost", True)]
    [pid] = attempt.store.status.worker_pids
    left = [psutil.Process(pid)] if psutil.pid_exists(pid) else []
    assert not psutil.wait_procs(left, timeout=30)[1]


def test_a_worker_that_fails_because_of_it_is_not_to_blame(attempt: Attempt) -> None:
    attempt.take_snapshot("GPU is lost")
    attempt.receive(WorkerFailed(0, "AcceleratorError: CUDA error: unknown error", "", "", False))
    assert failed_because_of_the_gpu(attempt.supervisor.run())


def test_a_worker_that_fails_after_training_on_is_to_blame(attempt: Attempt) -> None:
    attempt.take_snapshot("Unknown Error")
    attempt.take_snapshot("Unknown Error")
    attempt.receive(
        Progress(1, 4, 100.0, 0.0, 60.0), WorkerFailed(0, "ValueError: no", "", "", False)
    )
    ended = attempt.supervisor.run()
    assert ended.reason == f"Rank 0 on {GPU} failed: ValueError: no"
