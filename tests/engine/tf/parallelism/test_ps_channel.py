"""The channel from a coordinator to the other ranks of its pool."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Client, Connection
from pathlib import Path

import msgspec
import pytest

from engine.tf.parallelism.ps_channel import CoordinatorChannel, Registration, TaskChannel


@pytest.fixture
def meeting(tmp_path: Path) -> Path:
    return tmp_path / "attempt-1.rendezvous"


def meet(meeting: Path) -> tuple[CoordinatorChannel, TaskChannel, TaskChannel]:
    """A coordinator and ranks 1 and 2, whichever comes first."""
    with ThreadPoolExecutor(3) as together:
        first = together.submit(TaskChannel, meeting, Registration(1, 5001))
        second = together.submit(TaskChannel, meeting, Registration(2, 5002))
        coordinator = together.submit(CoordinatorChannel, meeting, 2)
        return coordinator.result(60), first.result(60), second.result(60)


def call(meeting: Path) -> Connection:
    """A connection to the coordinator from a program that does not know the key."""
    pause = threading.Event()
    while not meeting.exists():
        pause.wait(0.01)
    found = msgspec.json.decode(meeting.read_bytes())
    return Client(tuple(found["address"]))


def test_all_tasks_receive_what_the_coordinator_broadcasts(meeting: Path) -> None:
    coordinator, first, second = meet(meeting)
    assert coordinator.ports == {1: 5001, 2: 5002}
    coordinator.broadcast([1.5, 2.0])
    coordinator.broadcast([])
    assert [first.receive(), first.receive()] == [[1.5, 2.0], []]
    assert [second.receive(), second.receive()] == [[1.5, 2.0], []]
    assert meeting.stat().st_mode & 0o077 == 0  # only the owner can read the key


def test_the_end_of_the_coordinator_is_noticed(meeting: Path) -> None:
    coordinator, first, second = meet(meeting)
    coordinator.broadcast([1])
    coordinator.close()
    first.wait_until_closed()
    assert second.receive() == [1]
    with pytest.raises(ConnectionError, match="closed by peer"):
        second.receive()


def test_a_stranger_is_not_let_in(meeting: Path) -> None:
    with ThreadPoolExecutor(2) as together:
        coordinator = together.submit(CoordinatorChannel, meeting, 1)
        stranger = call(meeting)
        stranger.send_bytes(b"let me in")
        member = together.submit(TaskChannel, meeting, Registration(1, 5001))
        coordinator.result(60).broadcast([7])
        assert member.result(60).receive() == [7]
