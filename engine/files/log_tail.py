"""Reads the new lines of a growing log file, a limited number of bytes at a time."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

MAX_BYTES = 256 * 1024
"""If more bytes than this are new, the older ones are skipped: a person cannot read lines that
arrive so fast."""

PIECE_BYTES = 8 * 1024
"""Bytes read by each later call: the log shows them within the time of one frame."""

_INVISIBLE = re.compile(
    rb"\x1b\[[0-?]*[ -/]*[@-~]"  # colours and cursor movements
    rb"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # titles and links
    rb"|\x1b[ -/]*[0-~]|[\x00-\x08\x0b-\x1f\x7f]"  # other commands and control characters
)

MAX_LINE = 2000
"""Maximum number of characters of a line: Qt needs seconds to lay out a line of 1 MB."""


class LogPlace(NamedTuple):
    """How far a log was read."""

    offset: int
    """Bytes."""

    is_in_long_line: bool = False
    """Whether the next bytes belong to a line whose first MAX_LINE characters were returned."""


class LogTail:
    """Follows one log file, also after the file was truncated."""

    def __init__(self, path: Path, place: LogPlace | None = None) -> None:
        """Read on from the `place` of an earlier LogTail; None: from the beginning."""
        self._path = path
        self._offset, self._is_in_long_line = place or LogPlace(-1)
        self._rest = b""
        self.has_gaps = False
        """Whether a part of the log was skipped."""

    @property
    def place(self) -> LogPlace:
        """Up to where lines were returned; an unfinished line is read again from here."""
        return LogPlace(max(self._offset, 0) - len(self._rest), self._is_in_long_line)

    def read(self, *, whole: bool = False) -> list[str]:
        """Return the complete lines since the last call; if bytes were skipped, the first returned
        line says how many.

        With `whole`, a last line without a line feed counts as complete. Raises OSError.
        """
        with self._path.open("rb") as file:
            size = file.seek(0, 2)
            is_first = self._offset < 0
            if size < self._offset:
                self._go_to(0)
            begin = max(self._offset, 0)
            skipped = max(0, size - begin - MAX_BYTES)
            if skipped:
                self.has_gaps = True
                self._go_to(size - MAX_BYTES)
            file.seek(max(self._offset, 0))
            new = file.read(MAX_BYTES if is_first or whole else PIECE_BYTES)
        notes = []
        if skipped:
            notes.append(f"[{skipped:,} bytes skipped: see {self._path}]")
        self._offset = max(self._offset, 0) + len(new)
        *lines, self._rest = (self._rest + new).split(b"\n")
        if skipped or self._is_in_long_line:  # the new bytes begin in the middle of a line
            self._is_in_long_line = not lines
            lines = lines[1:]
            if self._is_in_long_line:
                self._rest = b""
        # Drop an overwritten progress bar.
        self._rest = self._rest[self._rest.rfind(b"\r", 0, -1) + 1 :]
        if self._rest and (whole or len(self._rest) > MAX_LINE):
            lines.append(self._rest)
            self._is_in_long_line, self._rest = not whole, b""
        return notes + [self._text(line) for line in lines]

    def _go_to(self, offset: int) -> None:
        self._offset, self._rest, self._is_in_long_line = offset, b"", False

    def _text(self, line: bytes) -> str:
        """Return the visible part of `line`, at most MAX_LINE characters of it."""
        text = _visible(line)
        if len(text) <= MAX_LINE:
            return text.decode(errors="replace")
        return f"{text[:MAX_LINE].decode(errors='replace')} … [the rest: {self._path}]"


def lines_before(path: Path, end: int) -> tuple[int, list[str]]:
    """Return the lines in the MAX_BYTES before the byte `end`, and where the first one begins.

    `end` is where a line begins; -1: the end of the file. Raises OSError.
    """
    with path.open("rb") as file:
        size = file.seek(0, 2)
        end = size if end < 0 else min(end, size)
        begin = max(0, end - MAX_BYTES)
        file.seek(begin)
        content = file.read(end - begin)
    if begin:  # the first bytes are the rest of a line, unless that is longer than all of them
        cut = content.find(b"\n") + 1
        begin, content = begin + cut, content[cut:]
    lines = [_visible(line)[:MAX_LINE] for line in content.split(b"\n")]
    if not lines[-1]:
        lines.pop()
    return begin, [line.decode(errors="replace") for line in lines]


def terminal_text(text: str) -> str:
    """Return `text` as a terminal would show it: without control codes and overwritten text."""
    lines = text.encode(errors="replace").split(b"\n")
    return "\n".join(_visible(line).decode(errors="replace") for line in lines)


def _visible(line: bytes) -> bytes:
    """Return `line` without control codes, and only its part after the last `\\r`: a progress bar
    writes one to overwrite itself."""
    return _INVISIBLE.sub(b"", line.rstrip(b"\r").rpartition(b"\r")[2])
