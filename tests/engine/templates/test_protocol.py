"""The handshake and the messages between a template and its callers."""

from __future__ import annotations

import json
import os
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec
import pytest

from engine.processes.process import ON_LINUX
from engine.templates import protocol
from engine.templates.protocol import Ask, Challenge, Files, Proof, TemplateState
from tests.support.sentences import sentence

pytestmark = pytest.mark.skipif(not ON_LINUX, reason="of Linux")

KEY = b"k" * 32
STATE = TemplateState("light", 1, True, 0, 1000, 0.5)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    monkeypatch.setenv(protocol.FOLDER_VARIABLE, str(tmp_path))
    files = Files("light")
    files.control.write_text(json.dumps({"key": KEY.hex(), "pid": 1}))
    return files


@pytest.fixture
def listener(files: Files) -> Iterator[socket.socket]:
    with closing(protocol.listen(files.socket)) as listener:
        yield listener


@pytest.fixture
def serve() -> Iterator[Callable[[Callable[[], None]], None]]:
    """Calls a function in a thread, and fails if it raises."""
    threads, errors = [], []

    def start(action: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                action()
            except Exception as error:
                errors.append(error)

        threads.append(threading.Thread(target=guarded))
        threads[-1].start()

    yield start
    for thread in threads:
        thread.join()
    assert errors == []


def test_a_caller_and_a_template_that_know_the_key_talk(
    files: Files, listener: socket.socket, serve: Callable[..., None]
) -> None:
    def template() -> None:
        connection, nonce = protocol.accept(listener)
        with connection:
            protocol.welcome(connection, protocol.receive(connection), nonce, KEY)
            assert protocol.receive(connection) == Ask()
            protocol.send(connection, STATE)

    serve(template)
    with protocol.connect(files) as connection:
        protocol.send(connection, Ask())
        assert protocol.receive(connection) == STATE


def test_a_caller_without_the_key_is_not_welcome(
    files: Files, listener: socket.socket, serve: Callable[..., None]
) -> None:
    def template() -> None:
        connection, nonce = protocol.accept(listener)
        with (
            connection,
            pytest.raises(ConnectionError, match=sentence("caller-does-not-know-key").pattern),
        ):
            protocol.welcome(connection, protocol.receive(connection), nonce, b"another")

    serve(template)
    with pytest.raises(ConnectionError):
        protocol.connect(files)


def test_a_template_without_the_key_gets_no_request(
    files: Files, listener: socket.socket, serve: Callable[..., None]
) -> None:
    """It repeats what the caller has proved."""

    def impostor() -> None:
        connection, _ = protocol.accept(listener)
        with connection:
            proof = protocol.receive(connection)
            assert isinstance(proof, Proof)
            protocol.send(connection, protocol.Welcome(proof.digest))
            with pytest.raises((EOFError, OSError)):
                protocol.receive(connection)

    serve(impostor)
    with pytest.raises(ConnectionError, match="it does not know the key"):
        protocol.connect(files)


def test_a_first_message_that_proves_nothing_is_not_welcome() -> None:
    ours, theirs = (Connection(end.detach()) for end in socket.socketpair())
    with ours, theirs:
        for message in (Ask(), Challenge(b"n"), Proof(b"", b"")):
            with pytest.raises(ConnectionError):
                protocol.welcome(ours, message, b"nonce", KEY)
        assert not theirs.poll()


def test_nothing_listens(files: Files) -> None:
    with pytest.raises(FileNotFoundError):
        protocol.connect(files)
    protocol.listen(files.socket).close()  # its file stays, as after a kill
    with pytest.raises(ConnectionRefusedError):
        protocol.connect(files)
    files.control.unlink()
    with pytest.raises(FileNotFoundError):
        protocol.connect(files)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"key": 1}', '{"key": "xyz"}', "{}"])
def test_a_damaged_control_file_is_none(text: str, files: Files) -> None:
    files.control.write_text(text)
    with pytest.raises(FileNotFoundError, match="damaged"):
        protocol.connect(files)


def test_a_template_that_does_not_answer_is_not_waited_for_long(
    files: Files, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "HANDSHAKE_SECONDS", 0.05)
    with pytest.raises(TimeoutError):
        protocol.connect(files)


def test_a_template_whose_queue_is_full_is_not_waited_for_long(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was stopped."""
    monkeypatch.setattr(protocol, "WHOLE_MESSAGE_SECONDS", 0.05)
    monkeypatch.setattr(protocol, "HANDSHAKE_SECONDS", 0.05)
    with closing(protocol.listen(files.socket)) as listener:
        listener.listen(0)
        waiting = [socket.socket(socket.AF_UNIX) for _ in range(3)]
        for caller in waiting:
            caller.setblocking(False)
            caller.connect_ex(str(files.socket))
        with pytest.raises((BlockingIOError, TimeoutError)):
            protocol.connect(files)
        for caller in waiting:
            caller.close()


def test_a_cancelled_caller_gives_up(files: Files, listener: socket.socket) -> None:
    with pytest.raises(TimeoutError):
        protocol.connect(files, lambda: True)


def test_no_descriptor_is_left_after_a_failure(files: Files, listener: socket.socket) -> None:
    before = os.listdir("/proc/self/fd")  # noqa: PTH208
    with pytest.raises(TimeoutError):
        protocol.connect(files, lambda: True)
    assert len(os.listdir("/proc/self/fd")) == len(before)  # noqa: PTH208


def test_a_socket_is_for_this_user_only_with_any_umask_and_any_length_of_its_path(
    tmp_path: Path,
) -> None:
    path = tmp_path / ("long" * 40) / "a.sock"
    path.parent.mkdir()
    umask = os.umask(0)
    try:
        protocol.listen(path).close()
    finally:
        os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_frame_that_is_nonsense_or_too_large_is_an_error() -> None:
    ours, theirs = (Connection(end.detach()) for end in socket.socketpair())
    with ours, theirs:
        for frame in (b"", b"\xc1", b"\x81\xa4type\xa7unknown", b"\xff\xfe"):
            theirs.send_bytes(frame)
            with pytest.raises(msgspec.DecodeError):
                protocol.receive(ours)
    ours, theirs = (Connection(end.detach()) for end in socket.socketpair())
    with ours, theirs:
        os.write(theirs.fileno(), (protocol.LARGEST_FRAME + 1).to_bytes(4, "big"))
        with pytest.raises(OSError, match="bad message length"):
            protocol.receive(ours)


def test_the_folder_is_in_the_data_folder_unless_the_environment_names_one(
    traindeck_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(protocol.FOLDER_VARIABLE, raising=False)
    assert protocol.folder() == traindeck_home / "templates"
    monkeypatch.setenv(protocol.FOLDER_VARIABLE, str(tmp_path / "chosen"))
    assert Files("torch").control == tmp_path / "chosen" / "torch.json"
