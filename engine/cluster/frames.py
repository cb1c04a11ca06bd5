"""Messages on a pipe: bodies with their length, 4 bytes, big-endian."""

from __future__ import annotations

import struct
from typing import BinaryIO

LARGEST_FRAME = 128 * 2**20
"""Bytes: a recipe with all its modules, or a message of a worker."""

_LENGTH = struct.Struct(">I")


def write_frame(stream: BinaryIO, body: bytes) -> None:
    """Write `body` with its length; waits while the other side does not read. Raises OSError."""
    stream.write(_LENGTH.pack(len(body)))
    stream.write(body)
    stream.flush()


def read_frame(stream: BinaryIO) -> bytes:
    """Wait for the next body. Raises EOFError, also for a frame that is too large, and OSError."""
    (length,) = _LENGTH.unpack(_exactly(stream, _LENGTH.size))
    if length > LARGEST_FRAME:
        raise EOFError(f"a frame of {length:,} bytes")
    return _exactly(stream, length)


def _exactly(stream: BinaryIO, size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data
