"""Authenticated connections on this machine that carry typed messages; nothing is pickled."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import secrets
import socket
import struct
import threading
from collections.abc import Callable
from multiprocessing.connection import (
    Client,
    Connection,
    Listener,
    answer_challenge,
    deliver_challenge,
)
from multiprocessing.context import AuthenticationError
from pathlib import Path

import msgspec

from engine.messages.commands import Command
from engine.messages.events import Event
from engine.system.atomic_file import write_atomically

_log = logging.getLogger(__name__)

CONTROL_FILE = "control.json"
LONGEST_HANDSHAKE = 10.0
"""Seconds that a new connection has to say who it is."""

LONGEST_SEND = 2.0
"""Seconds for which whoever is called waits for a caller that reads nothing."""

LARGEST_FRAME = 64 * 2**20
"""Bytes of a message; the largest ones of ours, with a thousand points of some series, have few."""


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """The first message on a connection: who is calling."""

    rank: int
    """The worker's rank; -1: a window or a command line."""


class CommandAccepted(msgspec.Struct, frozen=True, tag="command_accepted"):
    """The supervisor has taken the command; its answer is an event after number `seq`."""

    seq: int


class Alive(msgspec.Struct, frozen=True, tag="alive"):
    """A worker that has nothing else to say still answers."""

    doing: str = ""
    """`training`, `validation` or `checkpoint`; empty: it has yet to begin."""

    place: int = 0
    """How far that is. As long as this and `doing` change, the worker gets on."""


class Flush(msgspec.Struct, frozen=True, tag="settle"):
    """A worker wants all that it has said before to be on disk; answered by `Flushed`."""

    number: int


class Flushed(msgspec.Struct, frozen=True, tag="settled"):
    """It is. A supervisor whose disk is full does not answer."""

    number: int


Message = Hello | CommandAccepted | Alive | Flush | Flushed | Event | Command

_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)

CLOSED = (EOFError, OSError)
"""What a channel raises when the other side is gone."""


class Channel:
    """One connection. `send` may be called from any thread, `receive` from one."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._sending = threading.Lock()

    def send(self, message: Message) -> None:
        """Send; blocks while the other side does not read: a caller does so for ever, others hang
        up on it after LONGEST_SEND. Raises one of CLOSED."""
        with self._sending:
            try:
                self._connection.send_bytes(_encode(message))
            except BlockingIOError:
                _hang_up(self._connection)
                raise

    def receive(self, timeout: float | None = None) -> Message:
        """The next message. Raises one of CLOSED (also for one that is too large to be one),
        TimeoutError, or msgspec.DecodeError."""
        if timeout is not None and not self._connection.poll(timeout):
            raise TimeoutError
        frame = self._connection.recv_bytes(LARGEST_FRAME)
        try:
            return _decoder.decode(frame)
        except (RecursionError, UnicodeDecodeError) as error:
            raise msgspec.DecodeError("nested too deeply, or a text that is none") from error

    def finish(self) -> None:
        """Tell the other side that nothing more comes. The end of a process does not, as long as
        one that it forked, such as a data loader's, still holds the connection too."""
        if os.name == "posix":
            with _as_socket(self._connection) as end, contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close this side."""
        self._connection.close()


class Server:
    """Accepts connections for one run and hands each to `on_connection` once it said Hello.

    Every handshake has a thread of its own: one wedged caller holds nobody up.
    """

    def __init__(self, folder: Path, on_connection: Callable[[Hello, Channel], None]) -> None:
        """Listen, and write address and key to the run folder (0600). Raises OSError."""
        self._key = secrets.token_bytes(32)
        # The default address is a socket in a fresh 0700 folder (a named pipe on Windows): paths of
        # run folders can be longer than a socket's name may be.
        self._listener = Listener(backlog=64)
        self._on_connection = on_connection
        self._control_file = folder / CONTROL_FILE
        self._write_control_file()
        _log.debug("listens at %s", self._listener.address)
        self._closing = threading.Event()
        self._acceptor = threading.Thread(target=self._accept, daemon=True, name="accept")
        self._acceptor.start()

    def close(self) -> None:
        """Stop listening; connections that exist stay."""
        self._closing.set()
        with contextlib.suppress(OSError):  # a folder that became read-only keeps it
            self._control_file.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            Client(self._listener.address).close()  # wakes the thread that waits for a caller
        self._listener.close()
        self._acceptor.join(LONGEST_HANDSHAKE)

    def _write_control_file(self) -> None:
        control = {"address": self._listener.address, "key": self._key.hex(), "pid": os.getpid()}
        write_atomically(self._control_file, json.dumps(control), mode=0o600)

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                connection = self._listener.accept()
            except OSError:  # a caller that was gone at once, or too many open files
                self._closing.wait(0.1)
                continue
            threading.Thread(target=self._greet, args=(connection,), daemon=True).start()

    def _greet(self, connection: Connection) -> None:
        try:
            deliver_challenge(connection, self._key)
            answer_challenge(connection, self._key)
            _limit_sends(connection)
            channel = Channel(connection)
            hello = channel.receive(LONGEST_HANDSHAKE)
        except (*CLOSED, AuthenticationError, TimeoutError, msgspec.DecodeError) as error:
            _log.debug("a caller did not say who it is: %r", error)
            connection.close()
            return
        _log.debug("connected: %s", hello)
        if isinstance(hello, Hello):
            self._on_connection(hello, channel)
        else:
            connection.close()


def _limit_sends(connection: Connection) -> None:
    """Let no `send` block for longer than LONGEST_SEND, where the system can."""
    if os.name == "posix":
        with _as_socket(connection) as end:
            whole, part = divmod(LONGEST_SEND, 1)
            limit = struct.pack("ll", int(whole), int(part * 1e6))
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)


def _hang_up(connection: Connection) -> None:
    """End it for both sides; it must not be closed while a thread reads from it."""
    with _as_socket(connection) as end, contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)


def _as_socket(connection: Connection) -> socket.socket:
    return socket.socket(fileno=os.dup(connection.fileno()))


def connect(folder: Path, hello: Hello) -> Channel:
    """Call the supervisor of the run in `folder`. Raises OSError when none listens."""
    try:
        control = json.loads((folder / CONTROL_FILE).read_text())
        connection = Client(control["address"], authkey=bytes.fromhex(control["key"]))
    except (AuthenticationError, EOFError, ValueError, KeyError, TypeError) as error:
        raise OSError(f"The supervisor of {folder} does not answer: {error}") from error
    channel = Channel(connection)
    channel.send(hello)
    return channel


def supervisor_pid(folder: Path) -> int:
    """The process that listens for the run in `folder`; 0 where none does."""
    try:
        return int(json.loads((folder / CONTROL_FILE).read_text())["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0
