"""The memory of a template: what is its own, and what it can give back after its imports."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

from engine.processes.process import trim_heap

_MADV_DONTNEED = 4
_MAPPING = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) (r-.p) .* (/.*)$")
_WRITTEN = re.compile(r"^(?:Anonymous|Swap): +[1-9]")


def own_memory() -> int:
    """Return the bytes of memory that this process does not share with a file or a process."""
    return _rollup("Anonymous")


def release_memory() -> None:
    """Give freed memory, and the pages of libraries, back to the system, which reads the latter
    again when they are needed.

    Most of the code of a framework is used only while it is imported.
    """
    trim_heap()
    advise = ctypes.CDLL(None, use_errno=True).madvise
    advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for begin, end in _unwritten_mappings(Path("/proc/self/smaps").read_text()):
        advise(begin, end - begin, _MADV_DONTNEED)


def _unwritten_mappings(smaps: str) -> list[tuple[int, int]]:
    """Return the read-only mappings of files that equal their file; see proc(5) on `smaps`.

    The loader has written into some, such as tables of addresses: those pages would be lost.
    """
    found: list[tuple[int, int]] = []
    is_candidate = False
    for line in smaps.splitlines():
        if match := _MAPPING.match(line):
            found.append((int(match[1], 16), int(match[2], 16)))
            is_candidate = True
        elif "-" in line.partition(" ")[0]:
            is_candidate = False  # another mapping
        elif is_candidate and _WRITTEN.match(line):
            found.pop()
            is_candidate = False
    return found


def _rollup(name: str) -> int:
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0
