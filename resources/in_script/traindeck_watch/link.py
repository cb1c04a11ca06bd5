"""The connection with this rank's process of Traindeck: frames of JSON over a Unix socket."""

from __future__ import annotations

import json
import os
import select
import socket
import struct
import sys
import threading
from typing import Any

LARGEST_FRAME = 16 * 2**20
_CONNECT_SECONDS = 10.0
_MOST_CONNECTIONS = 50
"""Of one process: what breaks more often is broken by the script, again and again."""

_HEADER = struct.Struct(">I")

Frame = dict[str, Any]


def identity_of(descriptor: int) -> tuple[int, int] | None:
    """What an open descriptor stands for: the script may close ours, and get its number."""
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _framed(frame: Frame) -> bytes:
    body = json.dumps(frame, separators=(",", ":")).encode()
    return _HEADER.pack(len(body)) + body


def _hello() -> Frame:
    return {
        "kind": "hello",
        "key": os.environ.get("TRAINDECK_LINK_KEY", ""),
        "pid": os.getpid(),
        "python": ".".join(map(str, sys.version_info[:3])),
        "argv": [str(word) for word in getattr(sys, "argv", [])],
    }


class Link:
    """Sends and receives frames. It waits as long as the other side reads nothing, and connects
    anew when the connection breaks. It is closed when the other side is gone."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()
        self._received = bytearray()
        self._identity: tuple[int, int] | None = None
        self._connections = 0
        self.waits = False
        """Whether a frame is being sent; while the other side is halted, for long."""

    @property
    def is_open(self) -> bool:
        """Whether the process of the rank listens."""
        return self._socket is not None

    def connect(self) -> bool:
        """Connect and say hello. Returns whether that worked."""
        with self._lock:
            return self._connect()

    def _connect(self) -> bool:
        self._connections += 1
        if self._connections > _MOST_CONNECTIONS:
            return False
        path = os.environ.get("TRAINDECK_LINK", "")
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(_CONNECT_SECONDS)
            connection.connect(path)
            connection.settimeout(None)
            connection.sendall(_framed(_hello()))
        except OSError:
            connection.close()
            return False
        self._socket = connection
        self._identity = identity_of(connection.fileno())
        self._received.clear()
        return True

    def send(self, frame: Frame) -> bool:
        """Send one frame, whole. Returns False if it is lost. Any thread may call this."""
        try:
            framed = _framed(frame)
        except (TypeError, ValueError, RecursionError):
            return False
        if len(framed) > LARGEST_FRAME:
            return False
        self._renew()
        with self._lock:
            if self._socket is None:
                return False
            self.waits = True
            try:
                return self._send(framed) or (self._connect() and self._send(framed))
            finally:
                self.waits = False

    def _send(self, framed: bytes) -> bool:
        assert self._socket is not None
        try:
            self._socket.sendall(framed)
        except OSError:  # the script has written to it, or the other side is gone
            self._close()
            return False
        return True

    def _renew(self) -> bool:
        """Connect anew if the script has closed our descriptor, as daemons do with all of them."""
        with self._lock:
            if self._socket is None or self._is_ours():
                return False
            self._close()
            self._connect()
        return True

    def receive(self, seconds: float) -> list[Frame]:
        """Wait so long for frames; return those that are complete."""
        self._renew()
        connection = self._socket
        if connection is None:
            return []
        try:
            polled = select.poll()  # `select` takes no descriptor above 1023
            polled.register(connection, select.POLLIN)
            if not polled.poll(seconds * 1000):
                return []
            if self._renew():
                return []
            data = connection.recv(65536)
        except (OSError, ValueError):
            data = b""
        if not data:
            with self._lock:
                self._close()
                self._connect()
            return []
        self._received += data
        return self._complete()

    def _complete(self) -> list[Frame]:
        frames: list[Frame] = []
        while len(self._received) >= _HEADER.size:
            (length,) = _HEADER.unpack_from(self._received)
            if length > LARGEST_FRAME:
                self.close()
                break
            end = _HEADER.size + length
            if len(self._received) < end:
                break
            body = bytes(self._received[_HEADER.size : end])
            del self._received[:end]
            try:
                frame = json.loads(body)
            except ValueError:
                continue
            if isinstance(frame, dict):
                frames.append(frame)
        return frames

    def close(self) -> None:
        """Close it; the other end sees that."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        connection = self._socket
        if connection is not None:
            # The number of a descriptor that the script has closed may be that of its own file.
            if self._is_ours():
                connection.close()
            else:
                connection.detach()
            self._socket = None

    def _is_ours(self) -> bool:
        assert self._socket is not None
        return identity_of(self._socket.fileno()) == self._identity

    def forget_after_fork(self) -> None:
        """In a forked child: the connection stays the parent's."""
        self._lock = threading.Lock()
        self._received = bytearray()
        self._close()
