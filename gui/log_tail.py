"""Reads the new lines of one growing log file, a bounded piece at a time."""

from __future__ import annotations

from pathlib import Path

MOST_BYTES = 256 * 1024
"""As much is read at once, and so far before the end a long log begins."""


class LogTail:
    """Follows one log file, also when it is cut off and begins anew."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = -1
        self._rest = b""

    def read(self, *, whole: bool = False) -> list[str]:
        """The complete lines since the last call; the beginning of a long log is skipped.

        With `whole`, a last line without an end counts as complete. Raises OSError.
        """
        with self._path.open("rb") as file:
            size = file.seek(0, 2)
            skipped = False
            if self._offset < 0:
                self._offset = max(0, size - MOST_BYTES)
                skipped = self._offset > 0
            elif size < self._offset:
                self._offset, self._rest = 0, b""
            file.seek(self._offset)
            new = file.read(MOST_BYTES)
        self._offset += len(new)
        *lines, self._rest = (self._rest + new).split(b"\n")
        if skipped:
            lines = lines[1:]  # it began in the middle
        if (whole or len(self._rest) > MOST_BYTES) and self._rest:
            lines.append(self._rest)
            self._rest = b""
        return [_text(line) for line in lines]


def _text(line: bytes) -> str:
    """What a terminal would leave of `line`: progress bars overwrite themselves with `\\r`."""
    return line.rstrip(b"\r").rpartition(b"\r")[2].decode(errors="replace")
