"""The channel on which a coordinator sends its decisions to all other ranks of its pool."""

from __future__ import annotations

import json
import os
import secrets
import time
from multiprocessing.connection import Client, Connection, Listener
from multiprocessing.context import AuthenticationError
from pathlib import Path
from typing import NamedTuple

import msgspec

from engine.files.atomic_file import write_atomically
from engine.worker import environment

_POLL_SECONDS = 0.01
_LOOK_SECONDS = 0.1


class Registration(msgspec.Struct, frozen=True):
    """The first message of a task to the coordinator."""

    rank: int
    port: int
    """The port of its TensorFlow server."""


class Meeting(NamedTuple):
    """Where the ranks of a run over several machines meet, which share no files."""

    address: tuple[str, int]
    key: bytes


def meeting() -> Meeting | None:
    """Return where the coordinator listens; None: all ranks are on this machine."""
    addresses = os.environ.get(environment.ADDRESSES)
    if not addresses:
        return None
    host, _, port = addresses.split(",")[0].rpartition(":")
    return Meeting((host, int(port)), bytes.fromhex(os.environ[environment.KEY]))


class CoordinatorChannel:
    """The coordinator's end: one connection to each of the other ranks."""

    def __init__(self, rendezvous: Path, count: int, meeting: Meeting | None = None) -> None:
        """Create the file `rendezvous`, and wait until `count` tasks have registered.

        With a `meeting`, the tasks are on several machines, and there is no file.
        """
        self._connections: list[Connection] = []
        self.ports: dict[int, int] = {}
        """The ports of the tasks' TensorFlow servers, by rank."""

        key = meeting.key if meeting else secrets.token_bytes(32)
        address = meeting.address if meeting else ("127.0.0.1", 0)
        with Listener(address, backlog=count, authkey=key) as listener:
            if meeting is None:
                contact = {"address": listener.address, "key": key.hex()}
                write_atomically(rendezvous, json.dumps(contact), mode=0o600)
            while len(self._connections) < count:
                try:
                    connection = listener.accept()
                    task = msgspec.msgpack.decode(connection.recv_bytes(), type=Registration)
                except (AuthenticationError, EOFError, OSError):
                    continue  # another program, or a task that ended: the supervisor notices that
                self._connections.append(connection)
                self.ports[task.rank] = task.port

    def broadcast(self, numbers: list[float]) -> None:
        """Send `numbers` to all tasks, which must receive them. Raises OSError if a task ended."""
        message = msgspec.msgpack.encode(numbers)
        for connection in self._connections:
            connection.send_bytes(message)

    def close(self) -> None:
        """Close the connections, so that the tasks end."""
        for connection in self._connections:
            connection.close()


class TaskChannel:
    """The end of a task, which is any rank except the coordinator."""

    def __init__(
        self, rendezvous: Path, registration: Registration, meeting: Meeting | None = None
    ) -> None:
        """Wait for the coordinator and register with it. Raises OSError."""
        # The supervisor ends this worker when it takes too long.
        if meeting:
            self._connection = _connected(meeting)
        else:
            while not rendezvous.exists():
                time.sleep(_POLL_SECONDS)
            contact = json.loads(rendezvous.read_text())
            address, key = tuple(contact["address"]), bytes.fromhex(contact["key"])
            self._connection = Client(address, authkey=key)
        self._connection.send_bytes(msgspec.msgpack.encode(registration))

    def receive(self) -> list[float]:
        """Wait for the next broadcast and return it. Raises ConnectionError after the last one."""
        try:
            return msgspec.msgpack.decode(self._connection.recv_bytes(), type=list[float])
        except (EOFError, OSError):
            raise ConnectionError("Connection closed by peer: the coordinator is gone.") from None

    def wait_until_closed(self) -> None:
        """Wait until the coordinator closes its end."""
        try:
            while True:
                self._connection.recv_bytes()
        except (EOFError, OSError):
            return


def _connected(place: Meeting) -> Connection:
    """Connect to the coordinator, once it listens. Raises AuthenticationError."""
    while True:
        try:
            return Client(place.address, authkey=place.key)
        except (OSError, EOFError):
            time.sleep(_LOOK_SECONDS)
