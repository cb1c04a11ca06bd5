"""`cluster-node.json` in the data folder: what the Ray node of this machine does, for others."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

import msgspec

from engine.files.atomic_file import write_atomically
from engine.files.regular_file import read_regular
from engine.processes import process_tree
from engine.processes.process_tree import Identity
from engine.system import paths

FILE_NAME = "cluster-node.json"
_MOST = 64 * 2**10


class NodeState(StrEnum):
    """What the process with the Ray node of this machine does.

    STARTING -> RUNNING -> WAITING -> STARTING ... until it is asked to end; REFUSED is the end.
    """

    STARTING = "starting"
    RUNNING = "running"
    WAITING = "waiting"
    """The head is away; it joins again when the head answers."""

    REFUSED = "refused"
    """It could not start, or not join again, and has ended."""


class NodeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What the process with the Ray node of this machine does."""

    pid: int
    created: float
    state: NodeState
    text: str = ""
    """Why it waits or was refused, in a sentence."""

    ray_folder: str = ""
    """The temporary folder with Ray's sockets and logs."""

    differs: tuple[str, ...] = ()
    """What differs on the head and may, in sentences."""

    @property
    def identity(self) -> Identity:
        """The process, which is not another one that has its number now."""
        return self.pid, self.created

    @property
    def lives(self) -> bool:
        """Whether the process runs."""
        return process_tree.is_alive(self.identity)


def read() -> NodeStatus | None:
    """Return the newest status; None if there is none, or it cannot be read."""
    try:
        return msgspec.json.decode(read_regular(_file(), _MOST), type=NodeStatus)
    except (OSError, ValueError):
        return None


def write(status: NodeStatus) -> None:
    """Replace the status. Raises OSError."""
    write_atomically(_file(), msgspec.json.encode(status), mode=0o600)


def remove() -> None:
    """Remove the status. Raises OSError."""
    _file().unlink(missing_ok=True)


def _file() -> Path:
    return paths.home() / FILE_NAME
