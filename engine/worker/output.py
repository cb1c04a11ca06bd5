"""A worker's standard output, which is its log: a full disk must not end the training."""

from __future__ import annotations

import io
import sys
from typing import Any

from engine.system.disk_errors import disk_problem


class _LossyFile(io.FileIO):
    """A file that drops the data for which a full disk has no room."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if not disk_problem(error):
                raise
            return len(data)


def survive_full_disk() -> None:
    """Make standard output and standard error drop lines, without an error, on a full disk."""
    sys.stdout = _stream(1)
    sys.stderr = _stream(2)


def _stream(descriptor: int) -> io.TextIOWrapper:
    log = _LossyFile(descriptor, "w", closefd=False)
    return io.TextIOWrapper(log, encoding="utf-8", errors="backslashreplace", write_through=True)
