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
_SEND_SECONDS = 10.0
_HEADER = struct.Struct(">I")

Frame = dict[str, Any]


def identity_of(descriptor: int) -> tuple[int, int] | None:
    """What an open descriptor stands for: the script may close ours, and get its number."""
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    return status.st_dev, status.st_ino


class Link:
    """Sends and receives frames. After an error it is closed, and everything is dropped."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()
        self._received = bytearray()
        self._identity: tuple[int, int] | None = None

    @property
    def is_open(self) -> bool:
        """Whether the process of the rank listens."""
        return self._socket is not None

    def connect(self) -> bool:
        """Connect and say hello. Returns whether that worked."""
        path = os.environ.get("TRAINDECK_LINK", "")
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(_SEND_SECONDS)
            connection.connect(path)
        except OSError:
            connection.close()
            return False
        self._socket = connection
        self._identity = identity_of(connection.fileno())
        self._received.clear()
        return self.send(
            {
                "kind": "hello",
                "key": os.environ.get("TRAINDECK_LINK_KEY", ""),
                "pid": os.getpid(),
                "python": ".".join(map(str, sys.version_info[:3])),
                "argv": list(getattr(sys, "argv", [])),
            }
        )

    def send(self, frame: Frame) -> bool:
        """Send one frame, whole. Returns False if it is lost. Any thread may call this."""
        try:
            body = json.dumps(frame, separators=(",", ":")).encode("utf-8", "backslashreplace")
        except (TypeError, ValueError):
            return False
        if len(body) > LARGEST_FRAME:
            return False
        self._renew()
        with self._lock:
            connection = self._socket
            if connection is None:
                return False
            try:
                connection.sendall(_HEADER.pack(len(body)) + body)
            except OSError:
                self._close()
                return False
        return True

    def _renew(self) -> bool:
        """Connect anew if the script has closed our descriptor, as daemons do with all of them."""
        with self._lock:
            if self._socket is None or self._is_ours():
                return False
            self._close()
        self.connect()
        return True

    def receive(self, seconds: float) -> list[Frame]:
        """Wait so long for frames; return those that are complete."""
        self._renew()
        connection = self._socket
        if connection is None:
            return []
        try:
            if not select.select([connection], [], [], seconds)[0]:
                return []
            if self._renew():
                return []
            data = connection.recv(65536)
        except (OSError, ValueError):
            data = b""
        if not data:
            self.close()
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
