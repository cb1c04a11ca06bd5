"""The messages between a template and the supervisors, and the files by which they find it.

A template listens on a Unix socket that only this user may open, in a folder that only this user
may enter. It reads one message of each connection.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import sys
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec

from engine.processes.process import PROJECT, absolute_folder
from engine.system.paths import home

WHOLE_MESSAGE_SECONDS = 2.0
"""Longest wait for a message that is due, and for room to send one."""

INSTALLATION = (os.path.normpath(sys.executable), sys.prefix, str(PROJECT))
"""The interpreter of this process, its packages, and this project. One that was started as
`../.venv/bin/python` is named so, and those that it starts without the dots."""


class Fork(msgspec.Struct, frozen=True, tag="fork"):
    """Ask for a worker: as if `python -m module arguments...` was started.

    Answered by `Forked` and later `Exited`, or by `Refused`.
    """

    module: str
    arguments: list[str]
    environment: dict[str, str]
    folder: str
    """The working directory."""

    log: str
    """The file for stdout and stderr."""

    shell: dict[str, str]
    """See `engine.templates.differences.of_shell`."""

    installation: tuple[str, str, str] = INSTALLATION


class Forked(msgspec.Struct, frozen=True, tag="forked"):
    """The worker is there and waits for `Run`; it ends if the connection ends before."""

    pid: int
    created_at: float
    """See `engine.processes.process.start_time`."""


class Run(msgspec.Struct, frozen=True, tag="run"):
    """The supervisor follows the worker, which now begins its work."""


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """There will be no worker."""

    reason: str
    """A clause without a full stop: why."""

    is_ending: bool = False
    """The template ends; a new one may fork the worker."""


class Exited(msgspec.Struct, frozen=True, tag="exited"):
    """The worker has ended. Sent by the template, and before it by the worker if it can."""

    code: int
    by_template: bool


class Ask(msgspec.Struct, frozen=True, tag="ask"):
    """Ask for `TemplateState`."""


class End(msgspec.Struct, frozen=True, tag="end"):
    """Ask the template to end once its workers have ended."""


class TemplateState(msgspec.Struct, frozen=True, tag="state"):
    """What a template does, once its imports are done."""

    kind: str
    pid: int
    workers: int
    """Number of its workers that run."""

    problem: str = ""
    """A clause without a full stop: why it cannot fork."""


Message = Fork | Forked | Run | Refused | Exited | Ask | End | TemplateState

_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)

LARGEST_FRAME = 4 * 2**20
"""Bytes. An environment may hold 2 MiB."""

FOLDER_VARIABLE = "TRAINDECK_TEMPLATES"
"""The environment variable that names another folder for the templates than the data folder's."""


def folder() -> Path:
    """Return the folder of the templates' files."""
    chosen = os.environ.get(FOLDER_VARIABLE)
    return absolute_folder(chosen) if chosen else home() / "templates"


class Files:
    """The files of the template `kind`."""

    def __init__(self, kind: str) -> None:
        self.folder = folder()
        self.socket = self.folder / f"{kind}.sock"
        self.lock = self.folder / f"{kind}.lock"
        """Locked by the template that listens; it holds the pid."""

        self.start_lock = self.folder / f"{kind}.start"
        """Locked by the caller that starts the template, until it listens."""

        self.log = self.folder / f"{kind}.log"


def pid_of(files: Files) -> int:
    """Return the pid of the template that listened last; 0 if its file cannot be read."""
    try:
        return int(files.lock.read_text())
    except (OSError, ValueError):
        return 0


def send(connection: Connection, message: Message) -> None:
    """Send `message`. Raises OSError."""
    connection.send_bytes(_encode(message))


def receive(connection: Connection) -> Message:
    """Wait for the next message. Raises EOFError, OSError or msgspec.DecodeError."""
    frame = connection.recv_bytes(LARGEST_FRAME)
    try:
        return _decoder.decode(frame)
    except (RecursionError, UnicodeDecodeError) as error:
        raise msgspec.DecodeError("nested too deeply, or not valid UTF-8") from error


def connect(files: Files) -> Connection:
    """Connect to the template of `files`, which may still import.

    Raises FileNotFoundError or ConnectionRefusedError if none listens, and another OSError if it
    has no room for callers.
    """
    end = socket.socket(socket.AF_UNIX)
    _limit(end)  # also the wait for room in the queue of a template that was stopped
    try:
        with _short_path(files.socket) as path:
            end.connect(path)
    except OSError:
        end.close()
        raise
    return Connection(end.detach())


def listen(path: Path) -> socket.socket:
    """Return a new socket that listens at `path`, for this user only. Raises OSError."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    try:
        os.fchmod(listener.fileno(), 0o600)  # the file that `bind` makes gets these permissions
        with _short_path(path) as short:
            listener.bind(short)
        listener.listen(1024)
    except OSError:
        listener.close()
        raise
    return listener


def accept(listener: socket.socket) -> Connection:
    """Accept a connection. Raises OSError."""
    end, _ = listener.accept()
    _limit(end)
    return Connection(end.detach())


def _limit(end: socket.socket) -> None:
    """Limit the time of single reads and writes."""
    whole, part = divmod(WHOLE_MESSAGE_SECONDS, 1)
    limit = struct.pack("ll", int(whole), int(part * 1e6))
    end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)


@contextlib.contextmanager
def _short_path(path: Path) -> Iterator[str]:
    """Yield another path of the file `path`: that of a socket may have at most 107 bytes."""
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{path.name}"
    finally:
        os.close(descriptor)
