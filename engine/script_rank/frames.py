"""The frames between a rank's process and the script: length, then one JSON object, in both ways.

What arrives here is written by code in the user's process, so nothing of it is trusted.
"""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

import msgspec

LARGEST_FRAME = 16 * 2**20
_LENGTH = struct.Struct(">I")
_SURROGATE = "\\ud"
"""How JSON of the script begins a half of a character, and one that is no text alone."""


class _Frame(msgspec.Struct, frozen=True, tag_field="kind"):
    pass


class Hello(_Frame, frozen=True, tag="hello"):
    """A Python of the command has started."""

    key: str
    pid: int
    python: str = ""
    argv: tuple[str, ...] = ()


class Ended(_Frame, frozen=True, tag="ended"):
    """The process ends, and has sent everything."""


class Calls(_Frame, frozen=True, tag="calls"):
    """The calls of the module `traindeck` lead the training from here on."""


class Versions(_Frame, frozen=True, tag="versions"):
    """Versions of the packages that the script has imported."""

    versions: dict[str, str]


class NewPoints(_Frame, frozen=True, tag="points"):
    """What was captured since the last one. `epoch` counts from 1."""

    points: list[tuple[str, list[int], list[float], list[float]]] = []
    """Series, steps, values, and times (seconds since the epoch; may be empty)."""

    step: int = 0
    epoch: int | None = None
    step_seconds: float | None = None
    samples_per_second: float | None = None


class Plan(_Frame, frozen=True, tag="plan"):
    """What is known about the whole training."""

    epochs: int | None = None
    steps_per_epoch: int | None = None
    total_steps: int | None = None
    parameters: int | None = None
    replicas: int | None = None
    batch_size: int | None = None


class Outline(_Frame, frozen=True, tag="outline"):
    """The models that train, by their layers: see `traindeck_watch.models.outline`."""

    rows: list[list[Any]]
    versions: dict[str, str] = {}


class Image(_Frame, frozen=True, tag="image"):
    """A picture; `png` is its file in base64."""

    series: str
    step: int
    png: str
    width: int = 0
    height: int = 0
    caption: str = ""


class Histogram(_Frame, frozen=True, tag="histogram"):
    """A distribution: one more edge than counts."""

    series: str
    step: int
    edges: list[float]
    counts: list[float]


class Epoch(_Frame, frozen=True, tag="epoch"):
    """`epoch` epochs are done."""

    epoch: int
    step: int
    metrics: dict[str, float] = {}


class OwnFile(_Frame, frozen=True, tag="file"):
    """The script has written a checkpoint of its own."""

    path: str
    step: int
    is_state: bool = False
    """Whether a library goes on from it, and it is no mere copy of the weights."""


class Said(_Frame, frozen=True, tag="notice"):
    """A sentence for the user."""

    text: str


class Printed(_Frame, frozen=True, tag="printed"):
    """Lines that were written to the output, each with the step after which that was."""

    lines: list[tuple[str, int]]


class Saved(_Frame, frozen=True, tag="saved"):
    """This rank's part of a checkpoint of ours is written; `number` is that of the act."""

    step: int
    number: int = 0
    epoch: int = 0
    batch: int = 0
    seconds: float = 0.0
    parameters: int = 0
    kinds: tuple[str, ...] = ()
    metrics: dict[str, float] = {}
    """Of the last validation, such as {"validation/loss": 0.5}."""


class NotSaved(_Frame, frozen=True, tag="not_saved"):
    """This rank's part could not be written; `text` is a sentence."""

    text: str
    step: int = 0
    number: int = 0


class HasPaused(_Frame, frozen=True, tag="paused"):
    """The script waits after `step`."""

    step: int


class HasResumed(_Frame, frozen=True, tag="resumed"):
    """The script goes on after `step`."""

    step: int


class Stopping(_Frame, frozen=True, tag="stopping"):
    """The script ends after `step`, as it was asked to."""

    step: int
    number: int = 0


class CacheFreed(_Frame, frozen=True, tag="cache_emptied"):
    """Unused memory of one device was released."""

    device: str
    freed: int


class Doing(_Frame, frozen=True, tag="doing"):
    """The present work of the script: `training`, `validation`, `checkpoint`, ..."""

    what: str
    step: int = 0


class Failed(_Frame, frozen=True, tag="failed"):
    """An exception ends the script."""

    message: str
    where: str = ""
    traceback: str = ""


class Memory(_Frame, frozen=True, tag="memory"):
    """Memory of the framework on the devices of this rank, in bytes."""

    allocated: float | None = None
    reserved: float | None = None


Frame = (
    Hello
    | Ended
    | Calls
    | Versions
    | NewPoints
    | Plan
    | Outline
    | Image
    | Histogram
    | Epoch
    | OwnFile
    | Said
    | Printed
    | Saved
    | NotSaved
    | HasPaused
    | HasResumed
    | Stopping
    | CacheFreed
    | Doing
    | Failed
    | Memory
)
"""Everything that a script's process may send."""


class BadFrame(Exception):
    """What arrived is none of the frames above; the text says why, in a few words."""


def read_frame(connection: socket.socket) -> Frame:
    """Wait for the next frame. Raises BadFrame, or EOFError when the other side has closed."""
    (length,) = _LENGTH.unpack(_read(connection, _LENGTH.size))
    if length > LARGEST_FRAME:
        raise EOFError("a frame that is too large")  # where the next one begins is not known
    content = _read(connection, length)
    try:
        # Not msgspec: it refuses the NaN and Infinity that Python's json writes.
        text = content.decode(errors="replace")
        sent = json.loads(text)
        frame: Frame = msgspec.convert(_encodable(sent) if _SURROGATE in text else sent, Frame)
        return frame
    except (ValueError, OverflowError, RecursionError) as error:
        raise BadFrame(f"{error}") from error


def _encodable(sent: Any) -> Any:
    """Return what was sent with the escapes of characters that no text in UTF-8 can have."""
    match sent:
        case str():
            return sent.encode(errors="backslashreplace").decode()
        case list():
            return [_encodable(each) for each in sent]
        case dict():
            return {_encodable(name): _encodable(value) for name, value in sent.items()}
        case _:
            return sent


def encode_frame(frame: dict[str, Any]) -> bytes:
    """Return `frame` as bytes for the other side."""
    content = json.dumps(frame).encode()
    return _LENGTH.pack(len(content)) + content


def _read(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(min(size - len(parts), 2**20))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)
