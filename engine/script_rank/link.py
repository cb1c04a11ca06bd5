"""The socket on which the Pythons of a command speak with the process of their rank."""

from __future__ import annotations

import contextlib
import hmac
import logging
import queue
import secrets
import select
import socket
import struct
import threading
from pathlib import Path
from typing import Any, NamedTuple

from engine.script_rank.frames import (
    BadFrame,
    Calls,
    Frame,
    Hello,
    NewPoints,
    Saved,
    encode_frame,
    read_frame,
)

_log = logging.getLogger(__name__)

HELLO_SECONDS = 10.0
"""Time for a new connection to say who it is."""

SEND_SECONDS = 2.0
"""Time for a script to read what is sent; it has a thread for that."""

MOST_UNREAD = 256
"""Frames that wait for the main thread; then the thread of the script that sends them waits."""


class Received(NamedTuple):
    """A frame of a connection."""

    connection: Connection
    frame: Frame


class Closed(NamedTuple):
    """A connection has ended; all its frames were received."""

    connection: Connection


class Connection:
    """One Python of the command."""

    def __init__(self, own: socket.socket, hello: Hello) -> None:
        self.hello = hello
        self._socket = own
        self._sending = threading.Lock()

    def send(self, frame: dict[str, Any]) -> bool:
        """Send a frame; return whether the other side has taken it."""
        try:
            with self._sending:
                self._socket.sendall(encode_frame(frame))
        except OSError:
            return False
        return True

    def close(self) -> None:
        """End the connection, in both directions."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)


class Link:
    """Accepts connections, and puts their frames into `inbox`."""

    def __init__(self, path: Path, inbox: queue.Queue[Any]) -> None:
        """Listen at `path`, in a folder of this user. Raises OSError."""
        self.path = path
        self.key = secrets.token_hex(16)
        self._inbox = inbox
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        path.unlink(missing_ok=True)
        self._listener.bind(str(path))
        path.chmod(0o600)
        self._listener.listen(64)
        self.greeting: list[dict[str, Any]] = []
        """Frames for each new connection."""

        self._open: dict[Connection, None] = {}
        """In the order of their beginning."""

        self._changing = threading.Lock()
        self._arriving = 0
        """Connections that were accepted and have not said what they are."""

        self.leader: Connection | None = None
        """The connection whose steps and figures count."""

        threading.Thread(target=self._accept, daemon=True, name="link").start()

    @property
    def connections(self) -> list[Connection]:
        """The open connections, oldest first."""
        with self._changing:
            return list(self._open)

    @property
    def has_unread(self) -> bool:
        """Whether a process is connected, or has connected and was not heard yet."""
        with self._changing:
            waits = select.select([self._listener], [], [], 0)[0]
            return bool(self._open or self._arriving or waits)

    @property
    def addressee(self) -> Connection | None:
        """The connection that gets commands: the leader, before it is known the newest one."""
        newest = self.connections[-1:]
        return self.leader or (newest[0] if newest else None)

    def leads(self, connection: Connection, frame: Frame) -> bool:
        """Return whether `connection` is the leader; the first one that trains becomes it."""
        leader = self.leader
        if leader is not None and leader.hello.pid == connection.hello.pid:
            if isinstance(frame, Hello):  # it has connected anew
                self.leader = connection
            return True
        if leader is None and (
            isinstance(frame, Calls | Saved) or (isinstance(frame, NewPoints) and frame.step > 0)
        ):
            self.leader = connection
            _log.info("process %d leads", connection.hello.pid)
        return self.leader in (None, connection)

    def ended(self, connection: Connection) -> None:
        """Note that all frames of `connection` were handled."""
        if self.leader is connection:
            self.leader = None

    def close(self) -> None:
        """Accept no more connections, end those that there are, and remove the socket's file."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self.connections:
            connection.close()
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)

    def _accept(self) -> None:
        while True:
            try:
                select.select([self._listener], [], [])
                with self._changing:
                    accepted, _ = self._listener.accept()
                    self._arriving += 1
            except (OSError, ValueError):  # it was closed
                return
            threading.Thread(
                target=self._follow, args=(accepted,), daemon=True, name="link reader"
            ).start()

    def _follow(self, own: socket.socket) -> None:
        with own:
            connection = self._met(own)
            with self._changing:
                self._arriving -= 1
                if connection is not None:
                    self._open[connection] = None
            if connection is None:
                return
            for frame in self.greeting:
                connection.send(frame)
            self._inbox.put(Received(connection, connection.hello))
            self._read(own, connection)
            with self._changing:
                self._open.pop(connection, None)
            self._inbox.put(Closed(connection))

    def _met(self, own: socket.socket) -> Connection | None:
        """Return the connection of a process that says hello with our key; None for others."""
        own.settimeout(HELLO_SECONDS)
        try:
            hello = read_frame(own)
        except (OSError, EOFError, BadFrame):
            return None
        if not isinstance(hello, Hello) or not hmac.compare_digest(
            hello.key.encode(), self.key.encode()
        ):
            return None
        own.settimeout(None)
        own.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _timeval(SEND_SECONDS))
        return Connection(own, hello)

    def _read(self, own: socket.socket, connection: Connection) -> None:
        while True:
            try:
                self._inbox.put(Received(connection, read_frame(own)))
            except BadFrame as error:
                _log.info("process %d sends nonsense: %s", connection.hello.pid, error)
            except (OSError, EOFError):
                return


def _timeval(seconds: float) -> bytes:
    return struct.pack("ll", int(seconds), int(seconds % 1 * 1e6))
