"""A real supervisor whose workers hang: at their start, or because the run loses its GPU."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import psutil
import pytest

from engine.diagnosis import deadlines, device_watch, process_memory
from engine.diagnosis.device_metrics import PROCESS_MEMORY
from engine.files import file_sync
from engine.messages.channel import (
    CONNECTING,
    Alive,
    Channel,
    Flush,
    Flushed,
    Message,
    Server,
)
from engine.messages.commands import Stop
from engine.messages.events import (
    Alarm,
    Event,
    Paused,
    Progress,
    RunEnded,
    TrainingStarted,
    WorkerFailed,
    WorkerStarted,
)
from engine.runs.store.run_store import RunStore
from engine.runs.store.store_reader import RunReader
from engine.supervisor import supervisor
from engine.supervisor.buffered_store import BufferedStore
from engine.supervisor.inbox import Disconnected, Inbox, MessageReceived, SnapshotReceived
from engine.supervisor.queue_admission import QueueAdmission
from engine.supervisor.supervisor import Supervisor
from engine.telemetry.helper_client import TelemetryStream
from engine.telemetry.snapshot import DeviceSnapshot, Snapshot
from tests.support.recorded_runs import new_run_folder, this_process_supervises
from tests.support.runs import spec

pytestmark = pytest.mark.usefixtures("processes")

GPU = "GPU-11111111-2222-3333-4444-555555555555"
OTHER_GPU = "GPU-99999999-2222-3333-4444-555555555555"
HANGS = """
import signal, threading
import torch
signal.signal(signal.SIGTERM, signal.SIG_IGN)
threading.Event().wait()

def model(): ...
def datasets(): ...
"""


class SupervisedRun:
    """A supervisor with workers that hang; the test makes up messages and snapshots."""

    def __init__(self, file: Path, strategy: str, devices: int | tuple[str, ...]) -> None:
        file.write_text(HANGS)
        # A forked worker is at work within 0.1 s, and reports that there is no GPU.
        wanted = spec(str(file), strategy, devices, cold_start=True)
        self.folder = new_run_folder(wanted)
        self.store = RunStore(self.folder)
        self.store.append(this_process_supervises(), time.time())
        self.inbox = Inbox()
        self.server = Server(self.folder, self.inbox.connected)
        admission = QueueAdmission(self.folder, wanted)
        buffer = BufferedStore(self.folder, self.store)
        self.supervisor = Supervisor(self.folder, wanted, buffer, self.inbox, admission)

    def close(self) -> None:
        self.server.close()
        self.store.close()

    def receive(self, *messages: Any) -> None:
        for message in messages:
            self.inbox.put(MessageReceived(0, cast(Channel, None), message))

    def take_snapshot(self, lost: str | None) -> None:
        device = DeviceSnapshot(id=GPU, kind="gpu", label="3", name="G", lost=lost)
        self.inbox.put(SnapshotReceived(Snapshot(time=time.time(), devices=(device,))))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SupervisedRun]:
    """A run that trains on GPU."""
    monkeypatch.setattr(deadlines, "FAILURE_GRACE_SECONDS", 0.0)
    with closing(SupervisedRun(tmp_path / "hangs.py", "torch/single", (GPU,))) as made:
        made.receive(TrainingStarted(0, 10, 3, 1, 1234), Progress(1, 3, 100.0, 0.0, 60.0))
        yield made


def test_the_first_step_can_be_read_before_a_commit_is_due(
    run: SupervisedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "COMMIT_SECONDS", 1e6)
    run.supervisor._process_inbox()
    with RunReader(run.folder) as reader:
        assert reader.status().step == 3


def test_the_memory_of_a_run_on_the_cpu_is_known_at_its_first_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of a run that is over before the telemetry has taken its first snapshot."""
    monkeypatch.setattr(process_memory, "memory_of", lambda workers: 7 * len(workers))
    with closing(SupervisedRun(tmp_path / "hangs.py", "torch/single", 1)) as run:
        run.supervisor._store.append(WorkerStarted(0, os.getpid(), ("cpu:0",), 1.0))
        run.supervisor._measure_memory()
        run.receive(TrainingStarted(0, 10, 3, 1, 1234), Progress(1, 3, 100.0, 0.0, 60.0))
        measured = []
        deadline = time.monotonic() + 60
        while not measured and time.monotonic() < deadline:
            run.supervisor._process_inbox()
            with RunReader(run.folder) as reader:
                points = reader.points_after(PROCESS_MEMORY, 0)
                measured = list(zip(points.step.tolist(), points.value.tolist(), strict=True))
        assert measured[0] == (3.0, 7.0)
        assert run.supervisor._process_memory is not None
        run.supervisor._process_memory.close()


def test_a_window_that_disconnects_is_no_worker_that_is_cut_off(
    run: SupervisedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadlines, "CUT_OFF_SECONDS", -1.0)
    run.supervisor._process_inbox()
    run.inbox.put(Disconnected(-1))
    run.supervisor._process_inbox()
    run.supervisor._attempt.tick()
    run.supervisor._store.commit()
    with RunReader(run.folder) as reader:
        assert not [e for e in reader.events_after(0) if isinstance(e.event, WorkerFailed)]


def test_a_flush_is_answered_when_the_disk_has_what_came_before_it_and_nothing_waits_for_that(
    run: SupervisedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk_may_answer, answered = threading.Event(), threading.Event()
    answers: list[Message] = []

    def sync(descriptor: int) -> None:
        assert disk_may_answer.wait(60)

    class Line:
        def send(self, message: Message) -> None:
            answers.append(message)
            answered.set()

    monkeypatch.setattr(file_sync, "_sync", sync)
    run.inbox.put(MessageReceived(0, cast(Channel, Line()), Flush(7)))
    run.supervisor._process_inbox()
    with RunReader(run.folder) as reader:
        assert reader.status().step == 3, "readers see it already"
    run.supervisor._process_inbox()
    assert not answers
    disk_may_answer.set()
    assert answered.wait(60)
    assert answers == [Flushed(7)]


def left_of(run: SupervisedRun) -> list[psutil.Process]:
    """The workers that have not ended within a minute."""
    pids = filter(psutil.pid_exists, run.store.status.worker_pids)
    _, alive = psutil.wait_procs(map(psutil.Process, pids), timeout=60)
    return list(alive)


def test_workers_that_never_get_ready_are_named_and_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadlines, "START_SECONDS", 2.0)
    with closing(SupervisedRun(tmp_path / "hangs.py", "torch/ddp", 2)) as run:
        ended = run.supervisor.run()
        assert len(run.store.status.worker_pids) == 2
        assert ended.state == "failed"
        assert ended.reason.startswith(
            "Rank 0 on cpu:0, Rank 1 on cpu:1 did not start within 2 s: the logs in "
        )
        assert not left_of(run)


def test_a_supervisor_that_may_start_no_thread_ends_its_run_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> TelemetryStream:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("engine.supervisor.supervisor.TelemetryStream", refuse)
    with closing(SupervisedRun(tmp_path / "hangs.py", "torch/single", 1)) as run:
        ended = run.supervisor.run()
        assert ended.state == "failed"
        assert ended.reason == "The supervisor of the run failed: can't start new thread."
        assert not left_of(run)


def stored(folder: Path) -> list[Event]:
    with RunReader(folder) as reader:
        return [each.event for each in reader.events_after(0)]


def alarms(folder: Path) -> list[Alarm]:
    return [event for event in stored(folder) if isinstance(event, Alarm)]


def failed_because_of_the_gpu(ended: RunEnded) -> bool:
    return ended.state == "failed" and ended.reason.startswith(
        "GPU 3 stopped answering, so the run was ended. GPU is lost. There is no check"
    )


@pytest.mark.parametrize(
    ("late", "reason"),
    [
        ([TrainingStarted(0, 10, 0, 1, 1234)], "Stopped before the training began."),
        (
            [TrainingStarted(0, 10, 0, 1, 1234), Progress(1, 3, 100.0, 0.0, 60.0)],
            "Stopped at once, without saving.",
        ),
    ],
    ids=["no step", "a few steps"],
)
def test_a_training_that_begins_while_the_run_is_stopped_counts_once_it_has_done_a_step(
    tmp_path: Path, late: list[Event], reason: str
) -> None:
    with closing(SupervisedRun(tmp_path / "hangs.py", "torch/single", 1)) as run:
        attempt = run.supervisor._attempt
        attempt.stop(Stop())
        for event in late:
            attempt.received(0, event)
        assert attempt.verdict() == RunEnded("stopped", reason)


def test_a_lost_gpu_ends_the_run_and_no_worker_is_left(
    run: SupervisedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_watch, "STEP_TIMEOUT", 0.0)
    run.take_snapshot(None)
    run.take_snapshot("GPU is lost")
    run.take_snapshot("GPU is lost")
    ended = run.supervisor.run()
    assert failed_because_of_the_gpu(ended), ended.reason
    assert ended.failure is not None
    assert (ended.failure.rank, ended.failure.device) == (0, GPU)
    assert [(alarm.kind, alarm.raised) for alarm in alarms(run.folder)] == [("lost", True)]
    assert len(run.store.status.worker_pids) == 1
    assert not left_of(run)


def test_a_worker_that_fails_because_of_a_lost_gpu_is_not_to_blame(run: SupervisedRun) -> None:
    run.take_snapshot("GPU is lost")
    run.receive(WorkerFailed(0, "AcceleratorError: CUDA error: unknown error", "", "", False))
    assert failed_because_of_the_gpu(run.supervisor.run())


def test_a_worker_that_fails_after_training_on_is_to_blame(run: SupervisedRun) -> None:
    run.take_snapshot("Unknown Error")
    run.take_snapshot("Unknown Error")
    run.receive(Progress(1, 4, 100.0, 0.0, 60.0), WorkerFailed(0, "ValueError: no", "", "", False))
    ended = run.supervisor.run()
    assert ended.reason == f"Rank 0 on {GPU} failed: ValueError: no"
    [recorded] = [each for each in stored(run.folder) if isinstance(each, RunEnded)]
    assert recorded.reason == "Rank 0 on GPU 3 failed: ValueError: no"
    assert recorded.failure is not None
    assert (recorded.failure.message, recorded.failure.device) == (recorded.reason, GPU)


@pytest.mark.parametrize("second", [OTHER_GPU, None], ids=["two GPUs", "two CPUs"])
def test_ranks_that_wait_for_each_other_s_gpus_are_told_of_their_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, second: str | None
) -> None:
    monkeypatch.setattr(deadlines, "START_SECONDS", -1.0)
    devices = (GPU, second) if second else 2
    with closing(SupervisedRun(tmp_path / "hangs.py", "torch/ddp", devices)) as run:
        attempt = run.supervisor._attempt
        attempt.received(0, Alive(CONNECTING))
        attempt.received(1, Alive(CONNECTING))
        attempt.tick()
        text = attempt.verdict().reason
        assert "did not start within" in text
        assert ("NCCL_P2P_DISABLE=1" in text) == bool(second)


def test_a_rank_that_is_still_imported_says_nothing_of_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one waits for it, and not for its GPU."""
    monkeypatch.setattr(deadlines, "START_SECONDS", -1.0)
    with closing(SupervisedRun(tmp_path / "hangs.py", "torch/ddp", (GPU, OTHER_GPU))) as run:
        attempt = run.supervisor._attempt
        attempt.received(0, Alive())
        attempt.received(1, Alive(CONNECTING))
        attempt.tick()
        assert "NCCL_P2P_DISABLE" not in attempt.verdict().reason


def test_a_second_report_of_a_freed_pause_reaches_the_queue(
    run: SupervisedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run was resumed meanwhile, and its devices were full."""
    noted: list[str] = []
    monkeypatch.setattr(run.supervisor._admission, "stays_paused", lambda: noted.append("paused"))
    run.supervisor._process_inbox()  # it ends with the first step
    run.receive(Paused(3, freed_devices=True), Paused(3, freed_devices=True))
    run.supervisor._process_inbox()
    assert noted == ["paused", "paused"]
