"""The line between a coordinator and the other ranks of its pool: they find each other, and all
hear what the coordinator decides."""

from __future__ import annotations

import json
import secrets
import time
from multiprocessing.connection import Client, Connection, Listener
from multiprocessing.context import AuthenticationError
from pathlib import Path

import msgspec

from engine.system.atomic_file import write_atomically

_LOOK_SECONDS = 0.05


class Joined(msgspec.Struct, frozen=True):
    """The first message of a member."""

    rank: int
    port: int
    """Where its TensorFlow server listens."""


class CoordinatorChannel:
    """The coordinator's side: a line to each of the other ranks."""

    def __init__(self, meeting: Path, count: int) -> None:
        """Wait for `count` members; `meeting` is a file that does not exist yet."""
        self._lines: list[Connection] = []
        self.ports: dict[int, int] = {}
        """Where the members' TensorFlow servers listen, by rank."""

        key = secrets.token_bytes(32)
        with Listener(("127.0.0.1", 0), backlog=count, authkey=key) as listener:
            contact = {"address": listener.address, "key": key.hex()}
            write_atomically(meeting, json.dumps(contact), mode=0o600)
            while len(self._lines) < count:
                try:
                    line = listener.accept()
                    joined = msgspec.msgpack.decode(line.recv_bytes(), type=Joined)
                except (AuthenticationError, EOFError, OSError):
                    continue  # not a member, or one that is gone: our supervisor sees that
                self._lines.append(line)
                self.ports[joined.rank] = joined.port

    def tell(self, numbers: list[float]) -> None:
        """Send `numbers` to every member. Raises OSError when one is gone."""
        message = msgspec.msgpack.encode(numbers)
        for line in self._lines:
            line.send_bytes(message)

    def close(self) -> None:
        """Let the members go."""
        for line in self._lines:
            line.close()


class TaskChannel:
    """The side of every other rank."""

    def __init__(self, meeting: Path, joined: Joined) -> None:
        """Wait for the coordinator and join it. Raises OSError."""
        while not meeting.exists():  # our supervisor ends us if that takes too long
            time.sleep(_LOOK_SECONDS)
        found = json.loads(meeting.read_text())
        self._line = Client(tuple(found["address"]), authkey=bytes.fromhex(found["key"]))
        self._line.send_bytes(msgspec.msgpack.encode(joined))

    def hear(self) -> list[float]:
        """What the coordinator tells next. Raises ConnectionError when it is gone."""
        try:
            return msgspec.msgpack.decode(self._line.recv_bytes(), type=list[float])
        except (EOFError, OSError):
            raise ConnectionError("Connection closed by peer: the coordinator is gone.") from None

    def wait_for_the_end(self) -> None:
        """Return once the coordinator has left."""
        try:
            while True:
                self._line.recv_bytes()
        except (EOFError, OSError):
            return
