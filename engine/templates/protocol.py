"""The messages between a template and the supervisors, and the files by which they find it.

A template listens on a Unix socket in the data folder. A connection begins with an HMAC challenge
in both directions, with a key that only this user can read. The template answers each message on
its own, so that no caller makes the others wait.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import secrets
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec

from engine.processes.confinement import Confinement
from engine.processes.process import PROJECT, absolute_folder
from engine.system.paths import home

HANDSHAKE_SECONDS = 5.0
"""Longest wait of a caller for the template during the handshake."""

WHOLE_MESSAGE_SECONDS = 2.0
"""Longest wait for the rest of a message that has begun, and for room to send one."""


class Challenge(msgspec.Struct, frozen=True, tag="challenge"):
    """The first message of a template: random bytes."""

    nonce: bytes


class Proof(msgspec.Struct, frozen=True, tag="proof"):
    """The caller's answer: it knows the key; and its own random bytes."""

    nonce: bytes
    digest: bytes


class Welcome(msgspec.Struct, frozen=True, tag="welcome"):
    """The template knows the key too, and reads requests from now on."""

    digest: bytes


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
    """The template still imports its modules, and will answer then; sent every second."""

    at_low_priority: bool


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

    answers: bool = True
    """Whether the template has sent this state itself."""


Message = (
    Challenge
    | Proof
    | Welcome
    | Fork
    | Importing
    | Forked
    | Run
    | Refused
    | Exited
    | Ask
    | End
    | TemplateState
)

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
        self.control = self.folder / f"{kind}.json"
        """The key and the pid, while the template listens; readable by its owner only."""

        self.socket = self.folder / f"{kind}.sock"
        self.lock = self.folder / f"{kind}.lock"
        """Locked by the template that listens."""

        self.start_lock = self.folder / f"{kind}.start"
        """Locked by the caller that starts the template, until it listens."""

        self.log = self.folder / f"{kind}.log"


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


def pid_of(files: Files) -> int:
    """Return the pid of the template that listens; 0 if its file cannot be read."""
    try:
        return int(json.loads(files.control.read_text())["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def connect(files: Files, is_cancelled: Callable[[], bool] = lambda: False) -> Connection:
    """Connect to the template of `files`.

    Raises FileNotFoundError or ConnectionRefusedError if none listens; another OSError if it does
    not answer, or does not know the key.
    """
    try:
        key = bytes.fromhex(json.loads(files.control.read_text())["key"])
    except (ValueError, KeyError, TypeError) as error:
        raise FileNotFoundError(f"{files.control} is damaged: {error}") from error
    end = socket.socket(socket.AF_UNIX)
    _limit(end)  # also the wait for room in the queue of a template that was stopped
    try:
        with _short_path(files.socket) as path:
            end.connect(path)
    except OSError:
        end.close()
        raise
    connection = Connection(end.detach())
    try:
        challenge = _next(connection, is_cancelled)
        if not isinstance(challenge, Challenge):
            raise ConnectionError("it did not greet")
        nonce = secrets.token_bytes(32)
        send(connection, Proof(nonce, _digest(key, b"caller", challenge.nonce, nonce)))
        welcome = _next(connection, is_cancelled)
        expected = _digest(key, b"template", challenge.nonce, nonce)
        if not isinstance(welcome, Welcome) or not hmac.compare_digest(welcome.digest, expected):
            raise ConnectionError("it does not know the key")
    except (EOFError, msgspec.DecodeError) as error:
        connection.close()
        raise ConnectionError(str(error)) from error
    except OSError:
        connection.close()
        raise
    return connection


def _next(connection: Connection, is_cancelled: Callable[[], bool]) -> Message:
    deadline = time.monotonic() + HANDSHAKE_SECONDS
    while not connection.poll(0.05):
        if is_cancelled() or time.monotonic() > deadline:
            raise TimeoutError
    return receive(connection)


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


def accept(listener: socket.socket) -> tuple[Connection, bytes]:
    """Accept a connection; return it and its challenge, which was sent. Raises OSError."""
    end, _ = listener.accept()
    _limit(end)
    connection = Connection(end.detach())
    nonce = secrets.token_bytes(32)
    try:
        send(connection, Challenge(nonce))
    except OSError:
        connection.close()
        raise
    return connection, nonce


def welcome(connection: Connection, answer: Message, nonce: bytes, key: bytes) -> None:
    """Welcome a caller whose `answer` to the challenge `nonce` proves that it knows the key.

    Raises ConnectionError if it does not, and OSError.
    """
    expected = _digest(key, b"caller", nonce, answer.nonce) if isinstance(answer, Proof) else b""
    if not isinstance(answer, Proof) or not hmac.compare_digest(answer.digest, expected):
        raise ConnectionError("the caller does not know the key")
    send(connection, Welcome(_digest(key, b"template", nonce, answer.nonce)))


def _digest(key: bytes, role: bytes, template_nonce: bytes, caller_nonce: bytes) -> bytes:
    return hmac.digest(key, b"\0".join((role, template_nonce, caller_nonce)), "sha256")


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
