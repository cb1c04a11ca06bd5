"""The memory of a template: what it holds, and what it can give back after its imports."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

from engine.system.process import trim_heap

_MADV_DONTNEED = 4
_MAPPING = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) r-xp .* (/.*)$")


def own_memory() -> int:
    """Return the bytes of memory that this process does not share with a file or a process."""
    return _rollup("Anonymous")


def release_mapped_files() -> None:
    """Give the pages of libraries' code back to the system, which reads them again when needed.

    Most of the code of a framework is used only while it is imported.
    """
    trim_heap()
    advise = ctypes.CDLL(None, use_errno=True).madvise
    advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for line in Path("/proc/self/maps").read_text().splitlines():
        # Code is never written; pages of data that were written would be lost.
        if match := _MAPPING.match(line):
            begin, end = int(match[1], 16), int(match[2], 16)
            advise(begin, end - begin, _MADV_DONTNEED)


def _rollup(name: str) -> int:
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0
