"""Reads the rows of a store page by page, also of those to which no intact page leads any more.

The format is described in https://www.sqlite.org/fileformat2.html.
"""

from __future__ import annotations

import contextlib
import os
import re
import struct
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import NamedTuple

from engine.files.disk_errors import disk_problem
from engine.files.regular_file import open_regular
from engine.files.sqlite_file import LARGEST_VALUE
from engine.runs.store.run_store import FILE_NAME

_MAGIC = b"SQLite format 3\0"
_PAGE = 4096
"""SQLite's usual size, which every store has, in bytes."""

_TABLE_LEAF, _INDEX_LEAF, _INDEX_INTERIOR = 13, 10, 2
_FRAME = struct.Struct(">IIIIII")
_WAL_HEADER = 32
_WAL_MAGIC = 0x377F0682
"""With one added, the checksums are of big-endian numbers."""

_SHAPES = {
    # i: an integer, r: a real number, n: NULL, t: text, b: a blob
    "event": (_TABLE_LEAF, re.compile("n[ir]b")),  # `seq` is the number of the row, as `id` is
    "series": (_TABLE_LEAF, re.compile("nti")),
    "point": (_INDEX_LEAF, re.compile("iii[ir][irn]")),
    "file": (_INDEX_LEAF, re.compile("itb")),
}
"""By which a row without a table is known: its columns. A status looks like an event."""

Value = int | float | str | bytes | None


class FoundRow(NamedTuple):
    """A row of a page."""

    table: str
    """`event`, `series`, `point` or `file`; a status is found as an event."""

    values: tuple[Value, ...]
    """Its columns, in the order of the table."""


class StorePages:
    """The pages of the store in a folder, as its write-ahead log changes them."""

    def __init__(self, folder: Path) -> None:
        """Open the files; one that is missing or cannot be trusted is left out.

        Raises OSError if the disk does not give them.
        """
        self._stack = contextlib.ExitStack()
        self._file = self._open(folder / FILE_NAME)
        self._log = self._open(folder / f"{FILE_NAME}-wal")
        self._size = _PAGE
        self._in_log: dict[int, int] = {}
        header = self._at(self._file, 0, 100)
        if not header.startswith(_MAGIC):
            header = self._at(self._log, _WAL_HEADER + _FRAME.size, 100)
        if header.startswith(_MAGIC):
            size = int.from_bytes(header[16:18], "big")
            self._size = 2**16 if size == 1 else size if size in _SIZES else _PAGE
        self._in_log = dict(self._frames())
        first = self._page(1)
        self._usable = self._size
        self.free: set[int] = set()
        self.knows_free = False
        """Whether `free` are all pages that hold no rows; they may hold deleted ones."""
        if first.startswith(_MAGIC):
            self._usable -= first[20] if first[20] < self._size // 2 else 0
            self.knows_free = self._find_free(first)

    def __enter__(self) -> StorePages:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def rows(self) -> Iterator[FoundRow]:
        """Yield every row that can be read, in no order. Raises OSError."""
        in_file = 0 if self._file is None else -(-_length(self._file) // self._size)
        for number in range(1, max(in_file, max(self._in_log, default=0)) + 1):
            if number not in self.free:
                yield from self._rows_of(self._page(number), 100 if number == 1 else 0)

    def _open(self, path: Path) -> BufferedReader | None:
        try:
            return self._stack.enter_context(open_regular(path))
        except OSError as error:
            if disk_problem(error):
                raise
            return None

    def _at(self, file: BufferedReader | None, offset: int, size: int) -> bytes:
        if file is None:
            return b""
        file.seek(offset)
        return file.read(size)

    def _page(self, number: int) -> bytes:
        """Return a page; what is missing of it is zero, which is no kind of a page."""
        if number in self._in_log:
            page = self._at(self._log, self._in_log[number], self._size)
        else:
            page = self._at(self._file, (number - 1) * self._size, self._size)
        return page.ljust(self._size, b"\0")

    def _frames(self) -> Iterator[tuple[int, int]]:
        """Yield the number and the place of every page that a finished transaction wrote.

        SQLite ignores what comes after a frame that is damaged; here only that frame is left out.
        """
        header = self._at(self._log, 0, _WAL_HEADER)
        if self._log is None or len(header) < _WAL_HEADER:
            return
        is_big = int.from_bytes(header[:4], "big") == _WAL_MAGIC + 1
        order = ">" if is_big else "<"
        salts = header[16:24]
        if struct.pack(">II", *_checksum((0, 0), header[:24], order)) != header[24:]:
            salts = self._at(self._log, _WAL_HEADER + 8, 8)
        before = struct.unpack(">II", header[24:])
        pending: list[tuple[int, int]] = []
        for place in range(_WAL_HEADER, _length(self._log), _FRAME.size + self._size):
            frame = self._at(self._log, place, _FRAME.size + self._size)
            if len(frame) < _FRAME.size + self._size or frame[8:16] != salts:
                return  # the end, or what an earlier use of the file has left
            number, size_after, _, _, *stored = _FRAME.unpack_from(frame)
            summed = _checksum(before, frame[:8] + frame[_FRAME.size :], order)
            before = (stored[0], stored[1])
            if summed != before:
                continue
            pending.append((number, place + _FRAME.size))
            if size_after:
                yield from pending
                pending.clear()

    def _find_free(self, first: bytes) -> bool:
        trunk, total = struct.unpack_from(">II", first, 32)
        while trunk and trunk not in self.free:
            self.free.add(trunk)
            page = self._page(trunk)
            following, count = struct.unpack_from(">II", page)
            if 8 + 4 * count > self._size:
                return False
            self.free.update(struct.unpack_from(f">{count}I", page, 8))
            trunk = following
        return len(self.free) == int(total)

    def _rows_of(self, page: bytes, start: int) -> Iterator[FoundRow]:
        kind = page[start]
        if kind not in (_TABLE_LEAF, _INDEX_LEAF, _INDEX_INTERIOR):
            return
        first = start + (12 if kind == _INDEX_INTERIOR else 8)
        count = int.from_bytes(page[start + 3 : start + 5], "big")
        if first + 2 * count > self._usable:
            return
        for place in struct.unpack_from(f">{count}H", page, first):
            with contextlib.suppress(IndexError, ValueError, struct.error):  # a cell of noise
                if place >= first + 2 * count and (row := self._row(page, place, kind)):
                    yield row

    def _row(self, page: bytes, place: int, kind: int) -> FoundRow | None:
        """Raises IndexError, ValueError or struct.error if it is damaged."""
        if kind == _INDEX_INTERIOR:
            place += 4
        length, place = _varint(page, place)
        number = 0
        if kind == _TABLE_LEAF:
            number, place = _varint(page, place)
        local = self._local(length, is_table=kind == _TABLE_LEAF)
        payload = page[place : min(place + local, self._usable)]
        types, end = _types(payload)
        shape = "".join(map(_letter, types))
        wanted = _TABLE_LEAF if kind == _TABLE_LEAF else _INDEX_LEAF
        for table, (of_kind, pattern) in _SHAPES.items():
            if of_kind == wanted and pattern.fullmatch(shape):
                if end + sum(map(_width, types)) != length or length > LARGEST_VALUE:
                    return None
                if local < length:
                    payload += self._overflow(page, place + local, length - local)
                if len(payload) != length:
                    return None
                values = _values(payload, types, end)
                return FoundRow(table, (number, *values[1:]) if shape[0] == "n" else values)
        return None

    def _local(self, length: int, *, is_table: bool) -> int:
        """Return how much of a row of `length` bytes lies in the page itself."""
        largest = self._usable - 35 if is_table else (self._usable - 12) * 64 // 255 - 23
        if length <= largest:
            return length
        least = (self._usable - 12) * 32 // 255 - 23
        local = least + (length - least) % (self._usable - 4)
        return local if local <= largest else least

    def _overflow(self, page: bytes, place: int, missing: int) -> bytes:
        (following,) = struct.unpack_from(">I", page, place)
        found = bytearray()
        while following and len(found) < missing:
            part = self._page(following)
            (following,) = struct.unpack_from(">I", part)
            found += part[4 : self._usable]
        return bytes(found[:missing])


_SIZES = {2**power for power in range(9, 16)}


def _length(file: BufferedReader) -> int:
    return os.fstat(file.fileno()).st_size


def _checksum(before: tuple[int, ...], data: bytes, order: str) -> tuple[int, int]:
    """Return the checksum of a write-ahead log, continued from `before`."""
    one, two = before
    words = iter(struct.unpack(f"{order}{len(data) // 4}I", data))
    for left, right in zip(words, words, strict=True):
        one = (one + left + two) & 0xFFFFFFFF
        two = (two + right + one) & 0xFFFFFFFF
    return one, two


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """Return a number of variable length, and the place behind it. Raises IndexError."""
    value = 0
    for k in range(8):
        byte = data[place + k]
        value = value << 7 | byte & 127
        if byte < 128:
            return value, place + k + 1
    value = value << 8 | data[place + 8]
    return value - 2**64 if value >= 2**63 else value, place + 9


def _types(payload: bytes) -> tuple[list[int], int]:
    """Return the types of a record's columns, and where its values begin."""
    end, place = _varint(payload, 0)
    types = []
    while place < end:
        kind, place = _varint(payload, place)
        types.append(kind)
    if place != end:
        raise ValueError("the header of a record has another length")
    return types, end


def _letter(kind: int) -> str:
    if kind in _KINDS:
        return _KINDS[kind]
    if kind < 12:
        return "?"
    return "t" if kind % 2 else "b"


_KINDS = {0: "n", 7: "r", **dict.fromkeys((1, 2, 3, 4, 5, 6, 8, 9), "i")}
_WIDTHS = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0)


def _width(kind: int) -> int:
    """Return the bytes of a value."""
    return _WIDTHS[kind] if kind < 12 else (kind - 12) // 2


def _values(payload: bytes, types: list[int], place: int) -> tuple[Value, ...]:
    """Raises ValueError for text that is none."""
    values: list[Value] = []
    for kind in types:
        part = payload[place : place + _width(kind)]
        place += len(part)
        match _letter(kind):
            case "n":
                values.append(None)
            case "r":
                values.append(float(struct.unpack(">d", part)[0]))
            case "t":
                values.append(part.decode())
            case "b":
                values.append(part)
            case _:
                constant = kind - 8
                values.append(int.from_bytes(part, "big", signed=True) if part else constant)
    return tuple(values)
