"""The framing of TensorBoard's event files: records with their length and two checksums."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO

LARGEST_RECORD = 64 * 2**20
"""Bytes of one record; an image has some megabytes."""

_LENGTH, _CHECKSUM = struct.Struct("<Q"), struct.Struct("<I")


class DamagedRecord(ValueError):
    """A record's checksum is wrong; the text says where, in a few words."""


class CutRecord(DamagedRecord):
    """The last record is not complete: it is still being written, or its writer was killed."""


def record(data: bytes) -> bytes:
    """Return `data` as a record."""
    length = _LENGTH.pack(len(data))
    checks = (_CHECKSUM.pack(masked_crc(part)) for part in (length, data))
    return length + next(checks) + data + next(checks)


def records(file: BinaryIO) -> Iterator[bytes]:
    """Yield the content of each record. Raises DamagedRecord, CutRecord at the end, and OSError."""
    place = 0
    while head := file.read(12):
        if len(head) < 12:
            raise CutRecord("it ends within a record")
        (length,) = _LENGTH.unpack_from(head)
        if masked_crc(head[:8]) != _CHECKSUM.unpack_from(head, 8)[0]:
            raise DamagedRecord(f"the length of the record at byte {place:,} has a wrong checksum")
        if length > LARGEST_RECORD:
            raise DamagedRecord(f"the record at byte {place:,} has {length:,} bytes")
        data = file.read(length + 4)
        if len(data) < length + 4:
            raise CutRecord("it ends within a record")
        if masked_crc(data[:-4]) != _CHECKSUM.unpack_from(data, length)[0]:
            raise DamagedRecord(f"the record at byte {place:,} has a wrong checksum")
        yield data[:-4]
        place += length + 16


def masked_crc(data: bytes) -> int:
    """Return CRC-32C of `data`, masked: a checksum of data that hold checksums is weak."""
    crc = 0xFFFFFFFF
    table = _TABLE
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _entry(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    return byte


_TABLE = tuple(map(_entry, range(256)))
