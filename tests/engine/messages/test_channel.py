"""The control channel: which callers are accepted, and what happens to all others."""

from __future__ import annotations

import json
import os
import queue
import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import closing
from multiprocessing.connection import Client, Pipe
from multiprocessing.context import AuthenticationError
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engine.messages.channel import (
    CLOSED,
    CONTROL_FILE,
    Channel,
    CommandAccepted,
    Hello,
    Message,
    Server,
    connect,
    supervisor_pid,
)
from engine.messages.commands import EmptyCache, Pause, Resume, SaveCheckpoint, Stop
from tests.support.events import EXAMPLES, NOT_NUMBERS, losses

SECONDS = 60.0
"""Longest wait; only a test that fails gets there."""

COMMANDS = (SaveCheckpoint(), EmptyCache(), Pause(), Resume(), Stop(), Stop(now=True))
only_posix = pytest.mark.skipif(os.name != "posix", reason="POSIX permissions and sockets")


class Answering:
    """A server that keeps its callers in a queue."""

    def __init__(self, folder: Path) -> None:
        self._callers: queue.SimpleQueue[tuple[Hello, Channel]] = queue.SimpleQueue()
        self.server = Server(folder, lambda hello, channel: self._callers.put((hello, channel)))
        self._channels: list[Channel] = []

    def next(self) -> tuple[Hello, Channel]:
        hello, channel = self._callers.get(timeout=SECONDS)
        self._channels.append(channel)
        return hello, channel

    def has_no_caller(self) -> bool:
        return self._callers.empty()

    def close(self) -> None:
        self.server.close()
        for channel in self._channels:
            channel.close()


@pytest.fixture
def answering(tmp_path: Path) -> Iterator[Answering]:
    with closing(Answering(tmp_path)) as opened:
        yield opened


@pytest.fixture
def channels() -> Iterator[tuple[Channel, Channel]]:
    """The two ends of one connection."""
    one, other = map(Channel, Pipe())
    with closing(one), closing(other):
        yield one, other


def control(folder: Path) -> Any:
    return json.loads((folder / CONTROL_FILE).read_text())


def socket_of(folder: Path) -> Path:
    return Path(control(folder)["address"])


def test_a_server_that_may_start_no_thread_says_so_and_serves_the_next_client(
    answering: Answering, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as limit:
        limit.setattr(threading.Thread, "start", refuse)
        with pytest.raises(OSError, match="does not answer"):
            connect(tmp_path, Hello(-1), SECONDS)
    with closing(connect(tmp_path, Hello(-1), SECONDS)):
        assert answering.next()[0] == Hello(-1)


def test_a_client_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    with (
        closing(Server(tmp_path, refuse)),
        closing(connect(tmp_path, Hello(-1), SECONDS)) as channel,
        pytest.raises(CLOSED),
    ):
        channel.receive(SECONDS)


@pytest.mark.parametrize("message", [Hello(3), CommandAccepted(12), *COMMANDS, *EXAMPLES], ids=repr)
def test_every_message_arrives_as_it_was(
    message: Message, channels: tuple[Channel, Channel]
) -> None:
    sender, receiver = channels
    sender.send(message)
    assert receiver.receive(SECONDS) == message


def test_nan_and_infinities_arrive(channels: tuple[Channel, Channel]) -> None:
    sender, receiver = channels
    sender.send(losses(NOT_NUMBERS))
    assert repr(receiver.receive(SECONDS)) == repr(losses(NOT_NUMBERS))


def test_waiting_for_a_message_has_a_timeout(channels: tuple[Channel, Channel]) -> None:
    with pytest.raises(TimeoutError):
        channels[0].receive(0.0)


def test_a_closed_side_is_noticed_by_the_other(channels: tuple[Channel, Channel]) -> None:
    one, other = channels
    other.close()
    with pytest.raises(CLOSED):
        one.receive(SECONDS)
    with pytest.raises(CLOSED):
        one.send(Pause())


def test_a_side_that_another_thread_closes_in_the_middle_of_a_message_is_closed() -> None:
    one, other = Pipe()
    receive: Any = one._recv

    def receive_and_close(size: int) -> object:
        found = receive(size)
        one.close()
        return found

    one._recv = receive_and_close
    with closing(other):
        Channel(other).send(Pause())
        with pytest.raises(CLOSED):
            Channel(one).receive()


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"garbage",
        b"\x81\xa4type\xa7unknown",
        b"\x81\xa4type\xa3st\xff",
        b"\x80\x04N.",
        b"\x82\xa4type\xa5pause\xa1x" + b"\x91" * 100_000,
    ],
    ids=lambda frame: repr(frame[:12]),
)
def test_a_frame_that_is_not_a_message_is_refused_and_the_next_one_received(frame: bytes) -> None:
    ours, theirs = Pipe()
    with closing(Channel(ours)) as channel, theirs:
        theirs.send_bytes(frame)
        theirs.send_bytes(msgspec.msgpack.encode(Pause()))
        with pytest.raises(msgspec.DecodeError):
            channel.receive(SECONDS)
        assert channel.receive(SECONDS) == Pause()


def test_a_caller_is_known_by_its_hello_and_talks_both_ways(
    answering: Answering, tmp_path: Path
) -> None:
    with closing(connect(tmp_path, Hello(2))) as caller:
        hello, channel = answering.next()
        assert hello == Hello(2)
        caller.send(Pause())
        assert channel.receive(SECONDS) == Pause()
        channel.send(CommandAccepted(7))
        assert caller.receive(SECONDS) == CommandAccepted(7)


def test_a_wrong_key_is_refused(answering: Answering, tmp_path: Path) -> None:
    with pytest.raises((AuthenticationError, EOFError, OSError)):
        Client(control(tmp_path)["address"], authkey=b"wrong" * 8)
    with closing(connect(tmp_path, Hello(0))):
        hello, _ = answering.next()
    assert hello == Hello(0), "the refused caller was never announced"


def test_a_control_file_with_the_wrong_key_is_an_os_error(
    answering: Answering, tmp_path: Path
) -> None:
    changed = control(tmp_path) | {"key": "00" * 32}
    (tmp_path / CONTROL_FILE).write_text(json.dumps(changed))
    with pytest.raises(OSError, match="does not answer"):
        connect(tmp_path, Hello(0))
    assert answering.has_no_caller()


def test_the_server_hangs_up_on_a_caller_without_a_hello(
    answering: Answering, tmp_path: Path
) -> None:
    key = bytes.fromhex(control(tmp_path)["key"])
    with closing(Channel(Client(control(tmp_path)["address"], authkey=key))) as caller:
        caller.send(Stop(now=True))
        with pytest.raises(CLOSED):
            caller.receive(SECONDS)
    assert answering.has_no_caller()


@only_posix
@pytest.mark.parametrize("noise", [b"", b"GET / HTTP/1.1\r\n\r\n" * 20], ids=["silent", "noisy"])
def test_a_caller_that_hangs_does_not_delay_another(
    noise: bytes, answering: Answering, tmp_path: Path
) -> None:
    with socket.socket(socket.AF_UNIX) as hanging:
        hanging.connect(control(tmp_path)["address"])
        hanging.sendall(noise)
        with closing(connect(tmp_path, Hello(1))):
            hello, _ = answering.next()
    assert hello == Hello(1)


@only_posix
def test_the_server_hangs_up_on_a_caller_that_never_reads(
    answering: Answering, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.messages.channel.LONGEST_SEND", 0.1)
    with closing(connect(tmp_path, Hello(-1))):
        _, ours = answering.next()

        def send_for_ever() -> None:
            while True:
                ours.send(CommandAccepted(1))

        with pytest.raises(BlockingIOError):
            send_for_ever()
        with pytest.raises(CLOSED):
            ours.receive()
        with pytest.raises(CLOSED):
            ours.send(CommandAccepted(1))


def test_a_frame_that_is_too_large_ends_its_connection(
    answering: Answering, tmp_path: Path
) -> None:
    with closing(connect(tmp_path, Hello(-1))) as theirs:
        _, ours = answering.next()
        theirs._connection._send(b"\xff\xff\xff\xff" + b"\x7f" * 8)
        with pytest.raises(CLOSED):
            ours.receive()


@only_posix
def test_the_end_of_a_caller_is_noticed_while_its_child_holds_the_connection(
    answering: Answering, tmp_path: Path
) -> None:
    with closing(connect(tmp_path, Hello(0))) as theirs:
        held = os.dup(theirs._connection.fileno())  # as a forked process holds it
        _, ours = answering.next()
        theirs.send(Pause())
        theirs.end_sending()
        assert ours.receive(SECONDS) == Pause()
        with pytest.raises(CLOSED):
            ours.receive(SECONDS)
        ours.send(Resume())
        assert theirs.receive(SECONDS) == Resume(), "the other direction is still open"
        os.close(held)


def test_only_the_owner_may_read_the_key(answering: Answering, tmp_path: Path) -> None:
    assert stat.S_IMODE((tmp_path / CONTROL_FILE).stat().st_mode) == 0o600


@only_posix
def test_a_control_file_that_all_users_can_read_is_replaced(tmp_path: Path) -> None:
    (tmp_path / CONTROL_FILE).write_text("{}")
    (tmp_path / CONTROL_FILE).chmod(0o666)
    with closing(Answering(tmp_path)):
        assert stat.S_IMODE((tmp_path / CONTROL_FILE).stat().st_mode) == 0o600


def test_the_control_file_names_the_supervisor_until_it_closes(tmp_path: Path) -> None:
    assert supervisor_pid(tmp_path) == 0
    with closing(Answering(tmp_path)):
        assert supervisor_pid(tmp_path) == os.getpid()
    assert supervisor_pid(tmp_path) == 0


@pytest.mark.parametrize("text", ["", "{", "{}", "[1]", '{"pid": "x"}'])
def test_a_damaged_control_file_has_no_pid_and_no_address(text: str, tmp_path: Path) -> None:
    (tmp_path / CONTROL_FILE).write_text(text)
    assert supervisor_pid(tmp_path) == 0
    with pytest.raises(OSError, match="does not answer"):
        connect(tmp_path, Hello(-1))


def test_connecting_without_a_control_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        connect(tmp_path, Hello(-1))


def test_connecting_to_a_killed_supervisor_is_an_os_error(tmp_path: Path) -> None:
    with closing(Answering(tmp_path)):
        left_behind = (tmp_path / CONTROL_FILE).read_text()
    (tmp_path / CONTROL_FILE).write_text(left_behind)
    with pytest.raises(OSError, match=r"."):
        connect(tmp_path, Hello(-1))


def test_a_closed_server_leaves_no_thread(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with closing(Answering(tmp_path)):
        (acceptor,) = set(threading.enumerate()) - before
    assert not acceptor.is_alive()


def test_connections_stay_open_when_the_server_closes(tmp_path: Path) -> None:
    answering = Answering(tmp_path)
    with closing(connect(tmp_path, Hello(0))) as caller:
        _, channel = answering.next()
        answering.server.close()
        caller.send(Pause())
        assert channel.receive(SECONDS) == Pause()
        channel.close()
