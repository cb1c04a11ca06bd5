"""The head's end of another machine, without the machine: what comes, and what does not."""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engine.cluster.relay import Lost, Stored
from engine.diagnosis.process_memory import Measurement
from engine.messages.channel import Alive, Recorded, decode_frame, encode_frame
from engine.processes.process import UNKNOWN_EXIT
from engine.supervisor.inbox import (
    Connected,
    Disconnected,
    Inbox,
    LaunchEnded,
    MachineLost,
    MemoryMeasured,
    MessageReceived,
    SnapshotReceived,
    Told,
    WorkerExited,
    WorkerLaunched,
)
from engine.supervisor.machines import machine_link
from engine.supervisor.machines.machine_link import MachineLink
from engine.supervisor.machines.messages import (
    Beat,
    Begun,
    CheckpointPiece,
    Devices,
    FromRank,
    LaunchDone,
    Launched,
    LogText,
    Memory,
    NodeMessage,
    RankClosed,
    RankConnected,
    RankExited,
    Stacks,
    ToRank,
    decode_for_node,
    encode,
)
from engine.telemetry.snapshot import DeviceSnapshot, Snapshot
from tests.support.sentences import sentence

SECONDS = 60.0
RANK = 1


class Wire:
    """A transport whose other side is the test."""

    def __init__(self) -> None:
        self.coming: queue.Queue[bytes | Lost] = queue.Queue()
        self.gone: queue.Queue[Any] = queue.Queue()
        self.is_closed = False

    def take(self) -> Sequence[bytes]:
        try:
            frame = self.coming.get(timeout=0.01)
        except queue.Empty:
            return ()
        if isinstance(frame, Lost):
            raise frame
        return [frame]

    def give(self, frames: Sequence[bytes | Stored]) -> None:
        for frame in frames:
            body = frame.ref if isinstance(frame, Stored) else frame
            self.gone.put(decode_for_node.decode(body))

    def close(self) -> None:
        self.is_closed = True

    def say(self, *messages: NodeMessage) -> None:
        for message in messages:
            self.coming.put(encode(message))


class Head:
    """A link with what it tells the supervisor."""

    def __init__(self, folder: Path) -> None:
        (folder / "logs").mkdir()
        self.folder = folder
        self.inbox = Inbox()
        self.wire = Wire()
        self.link = MachineLink("b", [RANK], folder, self.wire, self.inbox, self.inbox.put)

    def next(self) -> Any:
        item = self.inbox.next(SECONDS)
        assert item is not None
        return item


@pytest.fixture
def head(tmp_path: Path) -> Iterator[Head]:
    made = Head(tmp_path)
    yield made
    made.link.close()
    assert made.wire.is_closed


def test_a_worker_there_seems_to_be_connected_here(head: Head) -> None:
    head.wire.say(Launched(RANK), LaunchDone(), RankConnected(RANK))
    assert head.next() == WorkerLaunched(RANK, 0)
    assert head.next() == LaunchEnded()
    connected = head.next()
    assert isinstance(connected, Connected)
    head.wire.say(FromRank(RANK, encode_frame(Alive("training", 3))))
    received = head.next()
    assert isinstance(received, MessageReceived)
    assert (received.rank, received.message) == (RANK, Alive("training", 3))
    connected.channel.send(Recorded(12))
    answer = head.wire.gone.get(timeout=SECONDS)
    assert isinstance(answer, ToRank)
    assert (answer.rank, decode_frame(answer.frame)) == (RANK, Recorded(12))
    head.wire.say(RankClosed(RANK), RankExited(RANK, 0))
    assert {head.next(), head.next()} == {Disconnected(RANK), WorkerExited(RANK, 0)}


def test_a_lost_machine_ends_its_workers_here(head: Head) -> None:
    head.wire.say(Launched(RANK), RankConnected(RANK))
    head.next(), head.next()
    head.wire.coming.put(Lost("its Ray node has ended"))
    assert head.next() == MachineLost("b", "its Ray node has ended")
    assert {head.next(), head.next()} == {Disconnected(RANK), WorkerExited(RANK, UNKNOWN_EXIT)}
    assert "Machine b was lost" in head.link.begun.get(timeout=SECONDS).problem


def test_a_machine_that_is_lost_while_it_launches_ends_the_launch(head: Head) -> None:
    head.link.launches()
    head.wire.coming.put(Lost("gone"))
    assert [head.next(), head.next()] == [MachineLost("b", "gone"), LaunchEnded()]


def test_a_silent_machine_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_link, "SILENCE_SECONDS", 0.05)
    head = Head(tmp_path)
    assert head.next() == MachineLost("b", sentence("it-has-not-answered"))
    head.link.close()


def test_a_slow_machine_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_link, "SLOW_SECONDS", -1.0)
    head = Head(tmp_path)
    head.wire.say(Beat())
    told = head.next()
    assert isinstance(told, Told)
    assert told.text.startswith(sentence("machine-b-has-not-answered"))
    assert told.text.endswith(sentence("machine-or-network-is-slow"))
    head.wire.say(Beat(), Launched(RANK))
    assert head.next() == WorkerLaunched(RANK, 0)
    head.link.close()


def test_what_is_not_understood_loses_the_machine(head: Head) -> None:
    head.wire.coming.put(b"\xc1")
    lost = head.next()
    assert isinstance(lost, MachineLost)
    assert sentence("it-sends-what-is-not-understood") in lost.why


def test_messages_of_ranks_of_other_machines_are_left_out(head: Head) -> None:
    head.wire.say(RankConnected(0), LogText(0, b"evil"), FromRank(0, b""), Begun("10.0.0.2", (5,)))
    assert head.link.begun.get(timeout=SECONDS).ports == (5,)
    assert not list((head.folder / "logs").iterdir())


def test_output_and_stacks_are_kept_beside_those_of_ranks_here(head: Head) -> None:
    head.wire.say(LogText(RANK, b"one\n"), LogText(RANK, b"two\n"), Stacks(RANK, "Thread 1\n"))
    head.wire.say(Begun("", ()))
    head.link.begun.get(timeout=SECONDS)
    logs = head.folder / "logs"
    assert (logs / "rank1.log").read_text() == "one\ntwo\n"
    assert (logs / "stacks-rank1.txt").read_text() == "Thread 1\n"
    assert (logs / "rank1.log").stat().st_mode & 0o777 == 0o600


def test_devices_there_have_the_machine_in_their_names(head: Head) -> None:
    device = DeviceSnapshot(id="cpu", kind="cpu", label="CPU", name="A CPU")
    head.wire.say(Devices(Snapshot(time=1.0, devices=(device,))))
    received = head.next()
    assert isinstance(received, SnapshotReceived)
    assert received.machine == "b"
    (named,) = received.snapshot.devices
    assert named == msgspec.structs.replace(device, id="b/cpu", label="b/CPU")


def test_a_machine_with_another_clock_is_told(head: Head) -> None:
    head.wire.say(Begun("10.0.0.2", (5,), clock=time.time() - 3600.0))
    told = head.next()
    assert isinstance(told, Told)
    assert told.text.startswith("The clock of b is 3600.")
    assert sentence("behind-clock-of-this-machine") in told.text


def test_memory_there_is_told_with_the_time_of_this_clock(head: Head) -> None:
    head.wire.say(Memory(Measurement(5.0, 300)))
    received = head.next()
    assert isinstance(received, MemoryMeasured)
    assert (received.machine, received.measurement.size) == ("b", 300)
    assert received.measurement.time > 1e9


def test_a_checkpoint_is_sent_piece_by_piece_and_a_lost_machine_takes_none(head: Head) -> None:
    for number in range(10):
        piece = encode(CheckpointPiece("step/tensors", bytes([number])))
        head.link.send_piece(Stored(piece))
    pieces = [head.wire.gone.get(timeout=SECONDS) for _ in range(10)]
    assert b"".join(piece.data for piece in pieces) == bytes(range(10))
