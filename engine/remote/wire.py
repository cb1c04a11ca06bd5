"""Frames on the standard streams of two programs: bodies with a length, in one deflate stream.

The stream goes on from frame to frame, so that what is sent again and again costs next to nothing.
A frame is two lengths, 4 bytes each, big-endian: that of the deflated body that follows, and that
of the body. Nothing of a frame is believed: a wrong length, or a too large one, is an error.
"""

from __future__ import annotations

import os
import select
import struct
import zlib

BANNER = "TRAINDECK"
"""The first word of the line with which the remote program begins; the caller's nonce follows."""

LARGEST_BODY = 32 * 2**20
"""Bytes: a recipe with all its modules takes up to 24 MiB."""

LARGEST_NOISE = 2**20
"""Bytes that a login may print before the banner."""

_HEAD = struct.Struct(">II")
_AT_ONCE = 2**16
_SLACK = 2**16
"""By how much deflating may lengthen a body."""


class Garbled(Exception):
    """The other side does not speak this protocol; the text is a clause."""


class FrameTooLarge(Exception):
    """A message is larger than a frame may be; it was not sent."""


class FrameWriter:
    """Writes frames to a descriptor. For one thread at a time."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._deflate = zlib.compressobj(6)
        self.sent = 0
        """Bytes."""

    def write(self, body: bytes) -> None:
        """Send `body`; waits while the other side does not read. Raises OSError, FrameTooLarge."""
        if len(body) > LARGEST_BODY:
            raise FrameTooLarge(f"{len(body):,} bytes")
        packed = self._deflate.compress(body) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        left = memoryview(_HEAD.pack(len(packed), len(body)) + packed)
        self.sent += len(left)
        while left:
            left = left[os.write(self._descriptor, left) :]


class FrameReader:
    """Reads frames from a descriptor. For one thread at a time."""

    def __init__(self, descriptor: int, silence: float | None = None) -> None:
        """Reading raises TimeoutError if nothing comes for `silence` seconds; None: it waits."""
        self._descriptor = descriptor
        self._silence = silence
        self._inflate = zlib.decompressobj()
        self._buffer = bytearray()
        self.received = 0
        """Bytes, with those before the banner."""

    def skip_to_banner(self, nonce: str) -> bytes:
        """Read up to the line with `nonce`, and return what came before.

        Raises EOFError, whose argument is that, or Garbled.
        """
        line = banner(nonce)
        while (at := self._buffer.find(line)) < 0:
            if len(self._buffer) > LARGEST_NOISE:
                raise Garbled(f"it printed more than {LARGEST_NOISE >> 20} MiB of other text")
            if not self._more():
                raise EOFError(bytes(self._buffer))
        noise = bytes(self._buffer[:at])
        del self._buffer[: at + len(line)]
        return noise

    def unread(self, most: int) -> bytes:
        """Return the last `most` bytes that came and are no message yet. From any thread."""
        return bytes(self._buffer[-most:])

    def read(self) -> bytes:
        """Wait for the next frame, and return its body. Raises EOFError, OSError, Garbled."""
        packed_size, size = _HEAD.unpack(self._take(_HEAD.size))
        if size > LARGEST_BODY or packed_size > size + _SLACK:
            raise Garbled(f"a message of {size:,} bytes")
        try:
            body = self._inflate.decompress(self._take(packed_size), size + 1)
        except zlib.error as error:
            raise Garbled(str(error)) from error
        if len(body) != size or self._inflate.unconsumed_tail or self._inflate.eof:
            raise Garbled("a message of a wrong length")
        return body

    def _take(self, size: int) -> bytes:
        while len(self._buffer) < size:
            if not self._more():
                raise EOFError("in the middle of a message" if self._buffer else "")
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    def _more(self) -> bool:
        """Read what is there into the buffer; return False at the end."""
        if self._silence is not None:
            ready, _, _ = select.select([self._descriptor], [], [], self._silence)
            if not ready:
                raise TimeoutError(f"nothing was said for {self._silence:g} s")
        new = os.read(self._descriptor, _AT_ONCE)
        self._buffer += new
        self.received += len(new)
        return bool(new)


def banner(nonce: str) -> bytes:
    """Return the line with which the remote program begins."""
    return f"{BANNER} {nonce}\n".encode()
