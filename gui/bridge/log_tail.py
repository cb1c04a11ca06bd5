"""Reads the new lines of one growing log file, a bounded piece at a time."""

from __future__ import annotations

import re
from pathlib import Path

from gui.style.translation import translate

MOST_BYTES = 256 * 1024
"""So far before its end a long log begins. Who is further behind goes there, too: nobody can read
what passes by so fast."""

PIECE = 8 * 1024
"""As much is read at once later on, so that showing it takes no longer than a frame."""

_UNSEEN = re.compile(
    rb"\x1b\[[0-?]*[ -/]*[@-~]"  # colours and moves of the cursor
    rb"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # titles and links
    rb"|\x1b[ -/]*[0-~]|[\x00-\x08\x0b-\x1f\x7f]"  # other commands, signs that are none
)

LONGEST_LINE = 2000
"""Characters of a line that are shown: to lay out a line of a megabyte takes seconds."""


class LogTail:
    """Follows one log file, also when it is cut off and begins anew."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = -1
        self._rest = b""
        self.has_gaps = False
        """Some of the log was passed over."""

        self._is_cut = False
        """The line that is being read was shown already, as far as a line is."""

    def read(self, *, whole: bool = False) -> list[str]:
        """The complete lines since the last call; the beginning of a long log is skipped, and so is
        what came in too fast, with a word about either.

        With `whole`, a last line without an end counts as complete. Raises OSError.
        """
        with self._path.open("rb") as file:
            size = file.seek(0, 2)
            is_first = self._offset < 0
            if size < self._offset:
                self._go_to(0)
            begin = max(self._offset, 0)
            passed_over = max(0, size - begin - MOST_BYTES)
            if passed_over:
                self.has_gaps = True
                self._go_to(size - MOST_BYTES)
            file.seek(max(self._offset, 0))
            new = file.read(MOST_BYTES if is_first or whole else PIECE)
        said = []
        if passed_over:
            text = translate("LogTail", "[{count:,} bytes passed over: see {path}]")
            said.append(text.format(count=passed_over, path=self._path))
        self._offset = max(self._offset, 0) + len(new)
        *lines, self._rest = (self._rest + new).split(b"\n")
        if passed_over or self._is_cut:  # it began in the middle of a line
            self._is_cut = not lines
            lines = lines[1:]
            if self._is_cut:
                self._rest = b""
        self._rest = self._rest[self._rest.rfind(b"\r", 0, -1) + 1 :]  # a progress bar, overwritten
        if self._rest and (whole or len(self._rest) > LONGEST_LINE):
            lines.append(self._rest)
            self._is_cut, self._rest = not whole, b""
        return said + [self._text(line) for line in lines]

    def _go_to(self, offset: int) -> None:
        self._offset, self._rest, self._is_cut = offset, b"", False

    def _text(self, line: bytes) -> str:
        """What is shown of `line`."""
        text = _seen(line)
        if len(text) <= LONGEST_LINE:
            return text.decode(errors="replace")
        rest = translate("LogTail", "[the rest: {path}]").format(path=self._path)
        return text[:LONGEST_LINE].decode(errors="replace") + f" … {rest}"


def as_shown(text: str) -> str:
    """The lines of `text` as a terminal would leave them."""
    lines = text.encode(errors="replace").split(b"\n")
    return "\n".join(_seen(line).decode(errors="replace") for line in lines)


def _seen(line: bytes) -> bytes:
    """What a terminal would leave of `line`: progress bars overwrite themselves with `\\r`, and
    colours are no text."""
    return _UNSEEN.sub(b"", line.rstrip(b"\r").rpartition(b"\r")[2])
