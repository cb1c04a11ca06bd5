"""`python -m engine.planning.memory.heap_replay`: how large a heap becomes by the blocks of a step.

The C library keeps released blocks and leaves gaps, so a process holds more than its tensors. The
blocks are allocated here in the same order, and not touched: they take addresses and no memory.

A line through the peaks of two short runs would need none of this. It was tried, and was 15 % to
109 % too high in 6 of the 13 combinations of `python -m benchmarks.memory_estimate`; the replay was
within 10.5 % in all of them.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from engine.planning.memory import allocations
from engine.planning.memory.allocations import Allocations
from engine.processes.process import PROJECT, module_environment

STEPS = 4
"""So often the step is done: the C library learns from large blocks that were released."""

ALIGNMENT = 64
SECONDS = 60.0

_FIELDS = (
    *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
    *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
)


class _MallocInfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in _FIELDS]


def heap_peaks(steps: Sequence[Allocations]) -> list[int]:
    """Return for each step the most bytes of the heap of a process that repeats it.

    Where that cannot be tried, return what the blocks alone need.
    """
    blocks = [allocations.peak(step) for step in steps]
    found = []
    for step, alone in zip(steps, blocks, strict=True):
        heap = _replayed(step)
        found.append(max(heap, alone))
    return found


def _replayed(step: Allocations) -> int:
    """Return the peak of the heap, found in a process of its own; 0: it could not be tried."""
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "engine.planning.memory.heap_replay"],
            input=msgspec.json.encode(step),
            capture_output=True,
            timeout=SECONDS,
            env=module_environment(os.environ),
            cwd=PROJECT,
            check=True,
        )
        return int(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return 0


def replay(step: Allocations, library: Any) -> int:
    """Do the allocations of `step` in this process; return the peak of the heap.

    `library` is the C library. Raises MemoryError.
    """
    heap = _Heap(library)
    begin, most = heap.size(), 0
    before, left = _before_and_left(step)
    blocks: dict[int, int] = {}
    for _ in range(STEPS):
        for number, size in before.items():
            blocks[number] = heap.allocate(size)
        for number in left:
            if number in blocks:
                heap.release(blocks.pop(number))
        for number, size in step:
            if size > 0:
                blocks[number] = heap.allocate(size)
            else:
                heap.release(blocks.pop(number))
            most = max(most, heap.size() - begin)
    return most


def _before_and_left(step: Allocations) -> tuple[dict[int, int], list[int]]:
    """Return the blocks that a step has found, with their sizes, and those that it leaves."""
    before: dict[int, int] = {}
    alive: dict[int, None] = {}
    for number, size in step:
        if size > 0:
            alive[number] = None
        elif number in alive:
            del alive[number]
        else:
            before[number] = -size
    return before, list(alive)


class _Heap:
    """The heap of this process."""

    def __init__(self, library: Any) -> None:
        self._info = library.mallinfo2
        self._info.restype = _MallocInfo
        self._allocate = library.posix_memalign
        self._allocate.argtypes = [
            ctypes.POINTER(ctypes.c_void_p),
            ctypes.c_size_t,
            ctypes.c_size_t,
        ]
        self._free = library.free
        self._free.argtypes = [ctypes.c_void_p]
        self._free.restype = None

    def size(self) -> int:
        """Return what the heap has of the system: its own region, and large blocks."""
        info = self._info()
        return int(info.arena + info.hblkhd)

    def allocate(self, size: int) -> int:
        place = ctypes.c_void_p()
        if self._allocate(ctypes.byref(place), ALIGNMENT, size) or place.value is None:
            raise MemoryError
        return place.value

    def release(self, place: int) -> None:
        self._free(place)


if __name__ == "__main__":
    asked = msgspec.json.decode(sys.stdin.buffer.read(), type=list[tuple[int, int]])
    try:
        print(replay(asked, ctypes.CDLL(None)))
    except (AttributeError, MemoryError):  # another C library, or more than this machine allows
        print(0)
