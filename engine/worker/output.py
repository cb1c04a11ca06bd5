"""What a worker prints goes to its log; a disk that takes no more must not end the training."""

from __future__ import annotations

import io
import sys
from typing import Any

from engine.system.disk_errors import disk_problem


class _Log(io.FileIO):
    """A file descriptor that loses what the disk does not take."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if not disk_problem(error):
                raise
            return len(data)


def survive_full_disk() -> None:
    """From now on `print` and the like lose lines rather than raise when the disk is full."""
    sys.stdout = _stream(1)
    sys.stderr = _stream(2)


def _stream(descriptor: int) -> io.TextIOWrapper:
    log = _Log(descriptor, "w", closefd=False)
    return io.TextIOWrapper(log, encoding="utf-8", errors="backslashreplace", write_through=True)
