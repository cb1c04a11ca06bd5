"""A supervisor's place in the queue, without workers."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engine import client
from engine.client import CommandFailed
from engine.messages.channel import Server
from engine.messages.commands import Pause, Stop
from engine.messages.events import AttemptStarted, CommandReceived, CommandRefused, Queued
from engine.processes import process
from engine.runs import device_queue
from engine.runs.device_queue import Ticket
from engine.runs.run_state import RunStatus
from engine.runs.store.run_store import RunStore
from engine.runs.store.store_reader import RunReader
from engine.spec.run_spec import RunSpec
from engine.supervisor import buffered_store, queue_admission
from engine.supervisor.buffered_store import BufferedStore
from engine.supervisor.inbox import Inbox, SignalReceived
from engine.supervisor.queue_admission import QueueAdmission
from engine.system import paths
from engine.telemetry.snapshot import DeviceSnapshot, Snapshot
from tests.support.sentences import sentence

GPU = "GPU-11111111-2222-3333-4444-555555555555"
SPEC = RunSpec(recipe="digits", strategy="torch/single", devices=(GPU,))
OTHER = Ticket("99", os.getpid(), process.start_time(os.getpid()), (GPU,), (GPU,))
FREED = RunStatus(freed_devices=True)


@pytest.fixture(autouse=True)
def one_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    device = DeviceSnapshot(id=GPU, kind="gpu", label="0", name="G")
    snapshot = Snapshot(time=0.0, devices=(device,))
    monkeypatch.setattr(queue_admission, "snapshot_once", lambda: snapshot)


@pytest.fixture
def folder() -> Path:
    return paths.create_run_folder()


@pytest.fixture
def store(folder: Path) -> Iterator[RunStore]:
    with closing(RunStore(folder)) as store:
        store.append(AttemptStarted(1, os.getpid(), process.start_time(os.getpid())), 1.0)
        store.commit()
        yield store


def queued_events(folder: Path) -> list[Any]:
    with RunReader(folder) as reader:
        return [stored.event for stored in reader.events_after(1)]


def places() -> list[tuple[str, str]]:
    return [(ticket.run, ticket.place) for ticket in device_queue.read()]


def test_with_free_devices_no_event_is_recorded(folder: Path, store: RunStore) -> None:
    admission = QueueAdmission(folder, SPEC)
    admission.enter_queue()
    assert admission.wait_for_turn(BufferedStore(folder, store), Inbox()) is None
    assert queued_events(folder) == []
    assert places() == [("1", "inside")]
    admission.leave()
    assert places() == []


def test_requests_are_answered_in_the_queue_and_a_stop_ends_the_run(
    folder: Path, store: RunStore
) -> None:
    device_queue.enter(OTHER)
    inbox = Inbox()
    admission = QueueAdmission(folder, SPEC)
    admission.enter_queue()
    answers: list[object] = []

    def send_commands() -> None:
        for command in (Pause(), Stop()):
            try:
                answers.append(client.send("1", command))
            except CommandFailed as error:
                answers.append(str(error))

    with closing(Server(folder, inbox.connected)):
        sender = threading.Thread(target=send_commands)
        sender.start()
        ended = admission.wait_for_turn(BufferedStore(folder, store), inbox)
        sender.join()
    assert ended is not None
    assert (ended.state, ended.failure) == ("stopped", None)
    recorded = queued_events(folder)
    assert recorded[0] == Queued(
        ("99",), sentence("queued-behind-run-on-in-line", run=99, device="GPU 0", place="next")
    )
    assert [type(event) for event in recorded[1:3]] == [CommandRefused, CommandReceived]
    assert recorded[-1] == ended
    assert "waits in the queue" in str(answers[0])
    assert answers[1] == 4, "the number of the event CommandReceived"


def test_a_signal_ends_a_run_in_the_queue(folder: Path, store: RunStore) -> None:
    device_queue.enter(OTHER)
    inbox = Inbox()
    inbox.put(SignalReceived("SIGTERM"))
    admission = QueueAdmission(folder, SPEC)
    admission.enter_queue()
    ended = admission.wait_for_turn(BufferedStore(folder, store), inbox)
    assert ended is not None
    assert ended.state == "stopped"


def test_a_read_only_disk_loses_no_event_of_the_queue(
    folder: Path, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is read-only while the run is queued; later all events are there, in order."""
    monkeypatch.setattr(buffered_store, "RETRY_SECONDS", 0.0)
    device_queue.enter(OTHER)
    buffer = BufferedStore(folder, store)
    admission = QueueAdmission(folder, SPEC)
    admission.enter_queue()
    store._connection.execute("PRAGMA query_only = 1")
    device_queue.leave(OTHER)
    assert admission.wait_for_turn(buffer, Inbox()) is None
    assert buffer.write_problem == "it is read-only", "the supervisor goes on with the same buffer"
    assert queued_events(folder) == []
    store._connection.execute("PRAGMA query_only = 0")
    buffer.commit()
    assert [event.ahead for event in queued_events(folder)] == [("99",), ()]


def test_a_pause_that_frees_devices_releases_them_until_they_are_reacquired(
    folder: Path, store: RunStore
) -> None:
    admission = QueueAdmission(folder, SPEC)
    admission.enter_queue()
    admission.release_freed(RunStatus())
    assert admission.reacquire() == ""
    admission.release_freed(FREED)
    assert places() == [("1", "aside")]
    assert device_queue.enter(OTHER) == []
    assert admission.reacquire() == sentence("run-uses-gpu-now")
    device_queue.leave(OTHER)
    assert admission.reacquire() == ""
    admission.release_freed(FREED)  # the workers have not reported yet that they resumed
    assert places() == [("1", "inside")]
    admission.release_freed(RunStatus())
    admission.release_freed(FREED)
    assert places() == [("1", "aside")]


def test_a_run_that_stays_paused_because_its_devices_are_full_releases_them_again(
    folder: Path, store: RunStore
) -> None:
    admission = QueueAdmission(folder, SPEC)
    admission.enter_queue()
    admission.release_freed(FREED)
    assert admission.reacquire() == ""
    admission.release_freed(FREED)  # it resumes
    assert places() == [("1", "inside")]
    admission.stays_paused()
    admission.release_freed(FREED)
    assert places() == [("1", "aside")]
    assert admission.reacquire() == ""
    assert places() == [("1", "inside")]


def test_a_run_that_never_queues_is_admitted_beside_others(folder: Path, store: RunStore) -> None:
    device_queue.enter(OTHER)
    admission = QueueAdmission(folder, msgspec.structs.replace(SPEC, queue="never"))
    admission.enter_queue()
    assert admission.wait_for_turn(BufferedStore(folder, store), Inbox()) is None
    assert places() == [("99", "inside"), ("1", "inside")]
