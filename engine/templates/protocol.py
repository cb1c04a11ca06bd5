"""The messages between a template and the supervisors, and the files by which they find it.

A template listens on a Unix socket in the data folder. A connection begins with the HMAC challenge
of `multiprocessing.connection`, in both directions, with a key that only this user can read.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import sys
from collections.abc import Iterator
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from pathlib import Path

import msgspec

from engine.system.confinement import Confinement
from engine.system.paths import home
from engine.system.process import PROJECT

HANDSHAKE_SECONDS = 2.0
"""Longest wait for the other side during the handshake, and for a message to be sent."""


class Interpreter(msgspec.Struct, frozen=True):
    """What must be the same in a template and in its workers, because it cannot be changed."""

    executable: str = sys.executable
    prefix: str = sys.prefix
    project: str = str(PROJECT)


class Fork(msgspec.Struct, frozen=True, tag="fork"):
    """Ask for a worker: as if `python -m module arguments...` was started.

    Answered by `Importing` (perhaps), then by `Forked` and later `Exited`, or by `Refused`.
    """

    module: str
    arguments: list[str]
    environment: dict[str, str]
    folder: str
    """The working directory."""

    log: str
    """The file for stdout and stderr."""

    confinement: Confinement
    interpreter: Interpreter = Interpreter()


class Importing(msgspec.Struct, frozen=True, tag="importing"):
    """The template still imports its modules; it will answer when it is done."""

    at_low_priority: bool


class Forked(msgspec.Struct, frozen=True, tag="forked"):
    """The worker runs."""

    pid: int
    created_at: float
    """See `engine.system.process.start_time`."""


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
    """Ask the template to end once its workers have ended; answered by `TemplateState`."""


class TemplateState(msgspec.Struct, frozen=True, tag="state"):
    """What a template does."""

    kind: str
    pid: int
    is_ready: bool
    """Whether its imports are done."""

    workers: int
    """Number of its workers that run."""

    memory: int
    """Bytes of memory that only this template uses."""

    idle_seconds: float
    """Since its last worker ended, or since its imports were done."""

    problem: str = ""
    """A clause without a full stop: why it cannot fork."""


Message = Fork | Importing | Forked | Refused | Exited | Ask | End | TemplateState

_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)

LARGEST_FRAME = 4 * 2**20
"""Bytes. An environment may hold 2 MiB."""

FOLDER_VARIABLE = "TRAINDECK_TEMPLATES"
"""The environment variable that names another folder for the templates than the data folder's."""


def folder() -> Path:
    """Return the folder of the templates' files."""
    chosen = os.environ.get(FOLDER_VARIABLE)
    return Path(chosen) if chosen else home() / "templates"


class Files:
    """The files of the template `kind`."""

    def __init__(self, kind: str) -> None:
        self.folder = folder()
        self.control = self.folder / f"{kind}.json"
        """The key and the pid, while the template listens; readable by its owner only."""

        self.socket = self.folder / f"{kind}.sock"
        self.lock = self.folder / f"{kind}.lock"
        """Locked by the template that listens."""

        self.log = self.folder / f"{kind}.log"


def send(connection: Connection, message: Message) -> None:
    """Send `message`. Raises OSError."""
    connection.send_bytes(_encode(message))


def receive(connection: Connection) -> Message:
    """Wait for the next message. Raises EOFError, OSError or msgspec.DecodeError."""
    return _decoder.decode(connection.recv_bytes(LARGEST_FRAME))


def connect(files: Files) -> Connection:
    """Connect to the template of `files`. Raises OSError if none listens."""
    try:
        key = bytes.fromhex(json.loads(files.control.read_text())["key"])
    except (ValueError, KeyError, TypeError) as error:
        raise OSError(f"{files.control} is damaged: {error}") from error
    end = socket.socket(socket.AF_UNIX)
    try:
        with _short_path(files.socket) as path:
            end.connect(path)
        connection = prepared(end)
        answer_challenge(connection, key)
        deliver_challenge(connection, key)
    except (EOFError, AuthenticationError) as error:
        end.close()
        raise OSError(f"the template does not answer: {error}") from error
    except OSError:
        end.close()
        raise
    return connection


def listen(path: Path) -> socket.socket:
    """Return a new socket that listens at `path`. Raises OSError."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    try:
        with _short_path(path) as short:
            listener.bind(short)
        listener.listen(128)
    except OSError:
        listener.close()
        raise
    return listener


def accept(listener: socket.socket, key: bytes) -> Connection | None:
    """Accept a connection; return None if the caller does not know the key, or is gone."""
    try:
        end, _ = listener.accept()
    except OSError:
        return None
    connection = prepared(end)
    try:
        deliver_challenge(connection, key)
        answer_challenge(connection, key)
    except (EOFError, OSError, AuthenticationError):
        connection.close()
        return None
    return connection


def prepared(end: socket.socket) -> Connection:
    """Return the connection of a socket, whose single reads and writes have a time limit."""
    whole, part = divmod(HANDSHAKE_SECONDS, 1)
    limit = struct.pack("ll", int(whole), int(part * 1e6))
    end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
    return Connection(end.detach())


@contextlib.contextmanager
def _short_path(path: Path) -> Iterator[str]:
    """Yield another path of the file `path`: that of a socket may have at most 107 bytes."""
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{path.name}"
    finally:
        os.close(descriptor)
