"""The messages between a template and its callers."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec
import pytest

from engine.processes.process import ON_LINUX, PROJECT
from engine.templates import protocol
from engine.templates.protocol import Ask, Files, TemplateState

pytestmark = pytest.mark.skipif(not ON_LINUX, reason="of Linux")

STATE = TemplateState("light", 1, 0)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    monkeypatch.setenv(protocol.FOLDER_VARIABLE, str(tmp_path))
    return Files("light")


@pytest.fixture
def listener(files: Files) -> Iterator[socket.socket]:
    with closing(protocol.listen(files.socket)) as listener:
        yield listener


@pytest.mark.usefixtures("processes")
def test_a_python_that_was_started_by_another_spelling_is_the_same() -> None:
    folder = PROJECT / "docs"
    code = "from engine.templates.protocol import INSTALLATION; print(INSTALLATION)"
    command = [os.path.relpath(sys.executable, folder), "-c", code]
    environment = os.environ | {"PYTHONPATH": str(PROJECT)}
    told = subprocess.check_output(command, cwd=folder, env=environment, text=True)
    assert told == f"{protocol.INSTALLATION}\n"


def test_a_caller_and_a_template_talk(files: Files, listener: socket.socket) -> None:
    with protocol.connect(files) as caller:
        protocol.send(caller, Ask())
        with protocol.accept(listener) as template:
            assert protocol.receive(template) == Ask()
            protocol.send(template, STATE)
        assert protocol.receive(caller) == STATE


def test_nothing_listens(files: Files) -> None:
    with pytest.raises(FileNotFoundError):
        protocol.connect(files)
    protocol.listen(files.socket).close()  # its file stays, as after a kill
    with pytest.raises(ConnectionRefusedError):
        protocol.connect(files)


def test_a_template_whose_queue_is_full_is_not_waited_for_long(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was stopped."""
    monkeypatch.setattr(protocol, "WHOLE_MESSAGE_SECONDS", 0.05)
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
    assert Files("torch").socket == tmp_path / "chosen" / "torch.sock"
