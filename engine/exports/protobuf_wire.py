"""The wire format of Protocol Buffers, for the few messages that other programs read and write."""

from __future__ import annotations

import struct
from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""The types of fields on the wire."""

Value = int | bytes | memoryview
"""A varint or the raw bytes of the other types."""


class DamagedMessage(ValueError):
    """The bytes are no message; the text says why, in a few words."""


def varint(number: int, value: int) -> bytes:
    """Return a field that holds an int, a bool or an enum; nothing for the default 0."""
    return _key(number, VARINT) + _varint(value & _MASK) if value else b""


def double(number: int, value: float) -> bytes:
    """Return a field that holds a double, also one that is 0."""
    return _key(number, FIXED64) + _DOUBLE.pack(value)


def single(number: int, value: float) -> bytes:
    """Return a field that holds a float, rounded to 32 bits; what is too large becomes infinite."""
    try:
        packed = _SINGLE.pack(value)
    except OverflowError:
        packed = _SINGLE.pack(float("inf") if value > 0 else float("-inf"))
    return _key(number, FIXED32) + packed


def content(number: int, value: bytes | str) -> bytes:
    """Return a field that holds bytes, a string or a message, also an empty one."""
    body = value.encode(errors="replace") if isinstance(value, str) else value
    return _key(number, BYTES) + _varint(len(body)) + body


def doubles(number: int, values: list[float]) -> bytes:
    """Return a packed field of doubles."""
    return content(number, struct.pack(f"<{len(values)}d", *values)) if values else b""


def fields(message: bytes | memoryview) -> Iterator[tuple[int, int, Value]]:
    """Yield number, type on the wire and value of each field. Raises DamagedMessage."""
    view, place, end = memoryview(message), 0, len(message)
    while place < end:
        key, place = _read_varint(view, place)
        kind = key & 7
        value: Value
        if kind == VARINT:
            value, place = _read_varint(view, place)
        else:
            if kind == BYTES:
                size, place = _read_varint(view, place)
            elif kind in _SIZES:
                size = _SIZES[kind]
            else:
                raise DamagedMessage(f"it has a field of the unknown type {kind}")
            if size > end - place:
                raise DamagedMessage("a field is longer than the message")
            value = view[place : place + size]
            place += size
        yield key >> 3, kind, value


def signed(value: Value) -> int:
    """Return the int64 of a varint."""
    if not isinstance(value, int):
        raise DamagedMessage("a number is no number")
    return value - 2**64 if value >= 2**63 else value


def number(kind: int, value: Value) -> float:
    """Return the value of a double or float field. Raises DamagedMessage."""
    if kind == FIXED64 and not isinstance(value, int):
        return float(_DOUBLE.unpack(value)[0])
    if kind == FIXED32 and not isinstance(value, int):
        return float(_SINGLE.unpack(value)[0])
    raise DamagedMessage("a number is no number")


def body(value: Value) -> memoryview:
    """Return the content of a field of bytes, a string or a message. Raises DamagedMessage."""
    if isinstance(value, int):
        raise DamagedMessage("a text is a number")
    return memoryview(value)


def text(value: Value) -> str:
    """Return the text of a string field; what is not valid UTF-8 is replaced."""
    return bytes(body(value)).decode("utf-8", "replace")


def many(kind: int, value: Value) -> list[float]:
    """Return the doubles of a repeated field, packed or not. Raises DamagedMessage."""
    if kind != BYTES:
        return [number(kind, value)]
    packed = body(value)
    if len(packed) % 8:
        raise DamagedMessage("a list of numbers has a part of a number")
    return list(struct.unpack(f"<{len(packed) // 8}d", packed))


_DOUBLE, _SINGLE = struct.Struct("<d"), struct.Struct("<f")
_SIZES = {FIXED64: 8, FIXED32: 4}
_MASK = 2**64 - 1
_LONGEST_VARINT = 10


def _key(number: int, kind: int) -> bytes:
    return _varint(number << 3 | kind)


def _varint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def _read_varint(view: memoryview, place: int) -> tuple[int, int]:
    value = shift = 0
    for byte in view[place : place + _LONGEST_VARINT]:
        value |= (byte & 0x7F) << shift
        place += 1
        if byte < 0x80:
            return value & _MASK, place
        shift += 7
    raise DamagedMessage("a number has no end")
