"""Reads the records of TensorBoard's event files.

TensorBoard's own reader says neither where a file is damaged nor that it only is not complete; it
opens any kind of file by its name, and takes a record of any length into memory.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO

from google.protobuf.message import DecodeError
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

LARGEST_RECORD = 64 * 2**20
"""Bytes of one record; an image has some megabytes."""

_LENGTH, _CHECKSUM = struct.Struct("<Q"), struct.Struct("<I")


class DamagedRecord(ValueError):
    """A record cannot be read; the text says where, in a few words."""


class CutRecord(DamagedRecord):
    """The last record is not complete: it is still being written, or its writer was killed."""


def records(file: BinaryIO) -> Iterator[Event]:
    """Yield the event of each record. Raises DamagedRecord, CutRecord at the end, and OSError."""
    place = 0
    while head := file.read(12):
        if len(head) < 12:
            raise CutRecord("it ends within a record")
        (length,) = _LENGTH.unpack_from(head)
        if masked_crc32c(head[:8]) != _CHECKSUM.unpack_from(head, 8)[0]:
            raise DamagedRecord(f"the length of the record at byte {place:,} has a wrong checksum")
        if length > LARGEST_RECORD:
            raise DamagedRecord(f"the record at byte {place:,} has {length:,} bytes")
        data = file.read(length + 4)
        if len(data) < length + 4:
            raise CutRecord("it ends within a record")
        if masked_crc32c(data[:-4]) != _CHECKSUM.unpack_from(data, length)[0]:
            raise DamagedRecord(f"the record at byte {place:,} has a wrong checksum")
        try:
            yield Event.FromString(data[:-4])
        except DecodeError:
            raise DamagedRecord(f"the record at byte {place:,} is no event") from None
        place += length + 16
