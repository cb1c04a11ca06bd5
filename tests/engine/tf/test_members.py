"""The line between a coordinator and the other ranks of its pool."""

from __future__ import annotations

import queue
import threading
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Client, Connection
from pathlib import Path

import msgspec
import pytest

from engine.tf import members
from engine.tf.members import Joined, Member, Members


@pytest.fixture
def meeting(tmp_path: Path) -> Path:
    return tmp_path / "attempt-1.rendezvous"


def meet(meeting: Path, silent: queue.SimpleQueue[int]) -> tuple[Members, Member, Member]:
    """A coordinator and ranks 1 and 2, whichever comes first."""
    with ThreadPoolExecutor(3) as together:
        first = together.submit(Member, meeting, Joined(1, 5001))
        second = together.submit(Member, meeting, Joined(2, 5002))
        coordinator = together.submit(Members, meeting, 2, silent.put)
        return coordinator.result(10), first.result(10), second.result(10)


def call(meeting: Path, *, authorised: bool) -> Connection:
    """A line to the coordinator from somebody who may know the key, but is no `Member`."""
    pause = threading.Event()
    while not meeting.exists():
        pause.wait(0.01)
    found = msgspec.json.decode(meeting.read_bytes())
    key = bytes.fromhex(found["key"]) if authorised else None
    return Client(tuple(found["address"]), authkey=key)


def test_all_hear_what_the_coordinator_says(meeting: Path) -> None:
    coordinator, first, second = meet(meeting, queue.SimpleQueue())
    assert coordinator.ports == {1: 5001, 2: 5002}
    coordinator.tell([1.5, 2.0])
    coordinator.tell([])
    assert [first.hear(), first.hear()] == [[1.5, 2.0], []]
    assert [second.hear(), second.hear()] == [[1.5, 2.0], []]
    assert meeting.stat().st_mode & 0o077 == 0  # the key is nobody else's


def test_only_a_member_that_falls_silent_is_named(
    meeting: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(members, "BEAT_SECONDS", 0.05)
    monkeypatch.setattr(members, "SILENCE_SECONDS", 1.0)
    silent: queue.SimpleQueue[int] = queue.SimpleQueue()
    with ThreadPoolExecutor(2) as together:
        coordinator = together.submit(Members, meeting, 2, silent.put)
        member = together.submit(Member, meeting, Joined(1, 5001)).result(10)
        mute = call(meeting, authorised=True)
        mute.send_bytes(msgspec.msgpack.encode(Joined(2, 5002)))
        coordinator.result(10)
    assert silent.get(timeout=10) == 2
    mute.close()
    coordinator.result().tell([1])
    assert member.hear() == [1]
    assert silent.empty()


def test_the_end_of_the_coordinator_is_heard(meeting: Path) -> None:
    coordinator, first, second = meet(meeting, queue.SimpleQueue())
    coordinator.tell([1])
    coordinator.close()
    first.wait_for_the_end()
    assert second.hear() == [1]
    with pytest.raises(ConnectionError, match="closed by peer"):
        second.hear()


def test_a_stranger_is_not_let_in(meeting: Path) -> None:
    silent: queue.SimpleQueue[int] = queue.SimpleQueue()
    with ThreadPoolExecutor(2) as together:
        coordinator = together.submit(Members, meeting, 1, silent.put)
        stranger = call(meeting, authorised=False)
        stranger.send_bytes(b"let me in")
        member = together.submit(Member, meeting, Joined(1, 5001))
        coordinator.result(10).tell([7])
        assert member.result(10).hear() == [7]
