"""Authenticated connections on this machine that carry typed messages, without pickle."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import secrets
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Client, Connection, answer_challenge, deliver_challenge
from multiprocessing.context import AuthenticationError
from pathlib import Path
from typing import Any

import msgspec

from engine.files.atomic_file import write_atomically
from engine.files.regular_file import read_json
from engine.messages.commands import Command
from engine.messages.events import Event
from engine.system.listener import open_listener

_log = logging.getLogger(__name__)

CONTROL_FILE = "control.json"
LONGEST_HANDSHAKE = 10.0
"""Seconds in which a new client must authenticate and send its Hello."""

LONGEST_SEND = 2.0
"""Seconds after which a server closes the connection of a client that does not read."""

LARGEST_FRAME = 64 * 2**20
"""Largest size of a message in bytes. Real messages are far smaller."""


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """The first message on a connection: it identifies the caller."""

    rank: int
    """The worker's rank; -1: a window or a command line."""


class CommandAccepted(msgspec.Struct, frozen=True, tag="command_accepted"):
    """The supervisor accepted the command; its answer will be an event after number `seq`."""

    seq: int


class Alive(msgspec.Struct, frozen=True, tag="alive"):
    """A sign of life, which a worker sends when it has no other message."""

    doing: str = ""
    """`training`, `validation` or `checkpoint`; before the training begins, one of
    BEFORE_TRAINING."""

    place: int = 0
    """A position in that work. While this or `doing` changes, the worker makes progress."""


LOADING, CONNECTING = "loading", "connecting"
BEFORE_TRAINING = ("", CONNECTING, LOADING)
"""What a worker may do before it trains: GPUs exchange data for the first time; a checkpoint is
loaded, whose place is the bytes that were read."""


class Flush(msgspec.Struct, frozen=True, tag="settle"):
    """A worker asks for all its earlier messages to be durable; answered by `Flushed`."""

    number: int


class Flushed(msgspec.Struct, frozen=True, tag="settled"):
    """No power cut can lose the messages before `Flush` with this number any more.

    It is not sent while the disk is full.
    """

    number: int


class Recorded(msgspec.Struct, frozen=True, tag="recorded"):
    """No power cut can lose the first `number` events of the worker on this connection."""

    number: int


class StatusQuestion(msgspec.Struct, frozen=True, tag="status_question"):
    """A window or a command line asks what the store may not tell; answered by `StatusAnswer`."""


class StatusAnswer(msgspec.Struct, frozen=True, tag="status_answer"):
    """What a supervisor knows of its run, from its memory: the answer waits for no disk."""

    status: bytes
    """MessagePack of the newest `RunStatus`."""

    write_problem: str
    """Why the store does not tell this status, in a few words; empty if it does or soon will."""

    standstill: float
    """Seconds since the last turn of the supervisor's main loop."""

    events: tuple[tuple[int, float, Event], ...]
    """The newest events that are not in the store: the number that each will have there, and when
    it arrived (seconds since the epoch)."""


class CheckpointPart(msgspec.Struct, frozen=True, tag="checkpoint_part"):
    """A worker on another machine sends the next bytes of a file of the checkpoint of `step`."""

    step: int
    name: str
    """The path in the checkpoint's folder."""

    data: bytes


class CheckpointSent(msgspec.Struct, frozen=True, tag="checkpoint_sent"):
    """A worker on another machine has sent all its files; answered by `CheckpointKept`."""

    step: int
    files: dict[str, tuple[int, str]]
    """The bytes and the SHA-256 of each."""


class CheckpointKept(msgspec.Struct, frozen=True, tag="checkpoint_kept"):
    """The files that a worker has sent lie beside those of the other ranks."""

    step: int
    problem: str
    """Why they do not, in a few words; empty: they do."""

    number: int = 0
    """The system's number of that error."""


Message = (
    Hello
    | CommandAccepted
    | Alive
    | Flush
    | Flushed
    | Recorded
    | StatusQuestion
    | StatusAnswer
    | CheckpointPart
    | CheckpointSent
    | CheckpointKept
    | Event
    | Command
)

_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)

encode_frame = _encode


def decode_frame(frame: bytes) -> Message:
    """Return the message of a frame. Raises msgspec.DecodeError."""
    try:
        return _decoder.decode(frame)
    except (RecursionError, UnicodeDecodeError) as error:
        raise msgspec.DecodeError("nested too deeply, or not valid UTF-8") from error


CLOSED = (EOFError, OSError)
"""The exceptions of a channel whose other side is gone."""


class Channel:
    """One connection. `send` may be called from any thread, `receive` from one thread only."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._sending = threading.Lock()

    def send(self, message: Message) -> None:
        """Send `message`; blocks while the other side does not read.

        A server then closes the connection after LONGEST_SEND, a client after the limit that it
        connected with; a worker has no limit. Raises one of CLOSED.
        """
        self.send_frame(_encode(message))

    def send_frame(self, frame: bytes) -> None:
        """Send a message that is encoded already, as `send` does."""
        with self._sending, self._closed_is_an_end():
            try:
                self._connection.send_bytes(frame)
            except BlockingIOError:
                _shut_down(self._connection)
                raise

    def receive(self, timeout: float | None = None) -> Message:
        """Wait for the next message.

        Raises one of CLOSED (also after a frame that is too large), TimeoutError, or
        msgspec.DecodeError.
        """
        return decode_frame(self.receive_frame(timeout))

    def receive_frame(self, timeout: float | None = None) -> bytes:
        """Wait for the next message, and return it as it was encoded, as `receive` does."""
        with self._closed_is_an_end():
            if timeout is not None and not self._connection.poll(timeout):
                raise TimeoutError
            return self._connection.recv_bytes(LARGEST_FRAME)

    @contextlib.contextmanager
    def _closed_is_an_end(self) -> Iterator[None]:
        """Raise EOFError if another thread closes the connection in the middle.

        `multiprocessing.connection` has no handle then, and asks the system with None.
        """
        try:
            yield
        except TypeError as error:
            if not self._connection.closed:
                raise
            raise EOFError("closed by this process") from error

    def end_sending(self) -> None:
        """Tell the other side that no more messages will come.

        The end of the process does not do this while a forked child, such as the process of a data
        loader, holds the connection open.
        """
        if os.name == "posix":
            # A recipe may have closed the descriptor.
            with contextlib.suppress(OSError), _as_socket(self._connection) as end:
                end.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close this end."""
        self._connection.close()


class Server:
    """Accepts connections for one run, and passes each to `on_connection` after its Hello.

    A handshake is the HMAC challenge of `multiprocessing.connection`, in both directions, and has
    its own thread, so that a caller that hangs does not delay the others.
    """

    def __init__(self, folder: Path, on_connection: Callable[[Hello, Channel], None]) -> None:
        """Listen, and write address and key to the run folder (mode 0600). Raises OSError.

        If `on_connection` raises, the connection is closed.
        """
        self._key = secrets.token_bytes(32)
        self._on_connection = on_connection
        self._control_file = folder / CONTROL_FILE
        self._closing = threading.Event()
        # The path of a run folder may be too long for a socket.
        self._listener = open_listener(backlog=64)
        self._acceptor = threading.Thread(target=self._accept, daemon=True, name="accept")
        try:
            self._acceptor.start()
        except RuntimeError as error:  # a limit for threads
            self._listener.close()
            raise OSError(str(error)) from error
        address = str(self._listener.address)
        _log.debug("listens at %s", address)
        control = {"address": address, "key": self._key.hex(), "pid": os.getpid()}
        write_atomically(self._control_file, json.dumps(control), mode=0o600)

    def close(self) -> None:
        """Stop listening; existing connections stay open."""
        self._closing.set()
        with contextlib.suppress(OSError):  # the folder may be read-only by now
            self._control_file.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            Client(self._listener.address).close()  # wakes the thread that waits in `accept`
            self._acceptor.join(LONGEST_HANDSHAKE)
        with contextlib.suppress(OSError):  # the socket may be deleted already
            self._listener.close()

    def _accept(self) -> None:
        while not self._closing.is_set():
            connection = None
            try:
                connection = self._listener.accept()
                threading.Thread(target=self._handshake, args=(connection,), daemon=True).start()
            except (
                Exception
            ) as error:  # the client is gone; too many files, threads, or too much memory
                _log.info("a client is not served: %r", error)
                if connection is not None:
                    connection.close()  # which tells the client
                self._closing.wait(0.1)

    def _handshake(self, connection: Connection) -> None:
        limited: Any = _Deadlined(connection, time.monotonic() + LONGEST_HANDSHAKE)
        try:
            deliver_challenge(limited, self._key)
            answer_challenge(limited, self._key)
            _limit_sends(connection)
            channel = Channel(connection)
            hello = channel.receive(LONGEST_HANDSHAKE)
            if not isinstance(hello, Hello):
                raise msgspec.DecodeError("the first message is no Hello")
            _log.debug("connected: %s", hello)
            self._on_connection(hello, channel)
        except Exception as error:  # not authentic, not in time, or a limit of this process
            _log.info("a client is not served: %r", error)
            connection.close()


class _Deadlined:
    """A connection for the handshake of `multiprocessing.connection`, which waits without limit."""

    def __init__(self, connection: Connection, deadline: float) -> None:
        self._connection = connection
        self._deadline = deadline

    def recv_bytes(self, maxlength: int) -> bytes:
        """Raises TimeoutError."""
        if not self._connection.poll(max(0.0, self._deadline - time.monotonic())):
            raise TimeoutError
        return self._connection.recv_bytes(maxlength)

    def send_bytes(self, data: bytes) -> None:
        self._connection.send_bytes(data)


def _limit_sends(connection: Connection, seconds: float = LONGEST_SEND) -> None:
    """Limit the time of each `send` to `seconds`, where the system supports it; 0: no limit."""
    if os.name == "posix":
        with _as_socket(connection) as end:
            _limit(end, socket.SO_SNDTIMEO, seconds)


def _limit(end: socket.socket, option: int, seconds: float) -> None:
    whole, part = divmod(seconds, 1)
    limit = struct.pack("ll", int(whole), int(part * 1e6))
    end.setsockopt(socket.SOL_SOCKET, option, limit)


def _shut_down(connection: Connection) -> None:
    """Shut both directions down, without `close`: another thread may be reading."""
    with contextlib.suppress(OSError), _as_socket(connection) as end:
        end.shutdown(socket.SHUT_RDWR)


def _as_socket(connection: Connection) -> socket.socket:
    return socket.socket(fileno=os.dup(connection.fileno()))


def connect(folder: Path, hello: Hello, seconds: float | None = None) -> Channel:
    """Connect to the supervisor of the run in `folder`.

    A supervisor that is halted, or too busy, does not answer: TimeoutError is raised after
    `seconds`, and each `send` is limited to them. None waits as long as it takes. Raises another
    OSError if no supervisor listens.
    """
    deadline = math.inf if seconds is None else time.monotonic() + seconds
    try:
        control = read_json(folder / CONTROL_FILE)
        key = bytes.fromhex(control["key"])
        connection = _open(control["address"], seconds)
    except (ValueError, KeyError, TypeError) as error:
        raise OSError(f"The supervisor of {folder} does not answer: {error}") from error
    channel = Channel(connection)
    try:
        limited: Any = connection if seconds is None else _Deadlined(connection, deadline)
        answer_challenge(limited, key)
        deliver_challenge(limited, key)
        channel.send(hello)
    except BlockingIOError:
        channel.close()
        raise TimeoutError from None
    except (AuthenticationError, EOFError) as error:
        channel.close()
        raise OSError(f"The supervisor of {folder} does not answer: {error}") from error
    except BaseException:
        channel.close()
        raise
    return channel


def _open(address: str, seconds: float | None) -> Connection:
    """Open a connection. Raises TimeoutError after `seconds`, or another OSError."""
    if os.name != "posix":
        return Client(address)
    with socket.socket(socket.AF_UNIX) as end:
        # The queue of a halted listener gets full; `settimeout` would then not wait at all.
        _limit(end, socket.SO_SNDTIMEO, seconds or 0.0)
        try:
            end.connect(address)
        except BlockingIOError:
            raise TimeoutError from None
        return Connection(end.detach())


def supervisor_pid(folder: Path) -> int:
    """Return the pid of the supervisor that listens for the run in `folder`; 0 if none does."""
    try:
        return int(read_json(folder / CONTROL_FILE)["pid"])
    except (OSError, ValueError, OverflowError, KeyError, TypeError):
        return 0
