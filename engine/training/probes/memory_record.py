"""What each worker of a measured run tells about its memory: a file in the folder of the run."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from engine.files.atomic_file import write_atomically
from engine.processes import own_memory

MEASURE_MEMORY = "TRAINDECK_MEASURE_MEMORY"
"""The environment variable that lets workers write their records: `peak`, or `step` for what the
third optimizer step allocates too."""

ROOM = "TRAINDECK_MEMORY_ROOM"
"""The environment variable with the bytes by which each worker may grow, from the import of its
framework on: more cannot be allocated. Only the memory of the machine is limited."""

_AT_START = "TRAINDECK_MEMORY_AT_START"

RECORDED_STEP = 2
"""The number, from 0, of the step whose allocations are recorded: the optimizer has its state, and
the buckets of DDP have their final order."""

CPU = "cpu"
"""All CPU devices, which have one memory."""


class DeviceRecord(msgspec.Struct, kw_only=True):
    """What one worker held on one device, in bytes."""

    weights: int = 0
    gradients: int = 0
    optimizer: int = 0
    average: int = 0
    """The averaged copy of the weights."""

    peak: int = 0
    """The most that it held: of a GPU what its allocator has reserved, else of the process."""

    step_peak: int = 0
    """The same for the recorded step alone. Of a GPU: the most in tensors."""

    shared: int = 0
    """Of the process's memory: what it shares with its template. 0 on GPUs."""

    at_start: int = 0
    """Memory of the process before model and data were made. 0 on GPUs."""

    reserved: int = 0
    """What the allocator of a GPU holds in the end."""

    used: int = 0
    """What all programs hold of a GPU in the end."""

    allocations: list[tuple[int, int]] = []
    """What the recorded step allocated and released, in order: the number of a block, and its bytes
    (negative: it is released). Empty: not recorded."""


class RankRecord(msgspec.Struct, kw_only=True):
    """What one worker held, by the name of the device in the spec, or `CPU`."""

    devices: dict[str, DeviceRecord] = {}


def is_asked() -> bool:
    """Whether this worker is to write its record."""
    return bool(os.environ.get(MEASURE_MEMORY))


def is_step_asked() -> bool:
    """Whether the allocations of a step are to be recorded."""
    return os.environ.get(MEASURE_MEMORY) == "step"


def begin() -> None:
    """Note what this worker holds before model and data are made, and limit it, if it is asked."""
    os.environ.pop(_AT_START, None)
    if is_asked():
        os.environ[_AT_START] = str(own_memory.held_bytes())
    if room := os.environ.get(ROOM):
        own_memory.limit_growth(int(room))


def write(folder: Path, rank: int, tell: Callable[[], RankRecord] | None) -> None:
    """Write the record of `rank`, if it is asked: what `tell` returns, and that of its process.

    `tell` is of a trainer that knows more than the system does. Raises OSError.
    """
    if not is_asked():
        return
    record = tell() if tell else RankRecord()
    if not record.devices:
        record.devices[CPU] = DeviceRecord()
    if process := record.devices.get(CPU):
        process.peak = max(process.peak, process.step_peak, own_memory.peak_bytes())
        process.shared = own_memory.shared_bytes()
        process.at_start = int(os.environ.get(_AT_START, "0"))
    write_atomically(_file(folder, rank), msgspec.json.encode(record))


def read(folder: Path, ranks: int) -> dict[int, RankRecord]:
    """Return the records of the `ranks` workers of a run by rank, as far as there are some."""
    found = {}
    for rank in range(ranks):
        try:
            content = _file(folder, rank).read_bytes()
            found[rank] = msgspec.json.decode(content, type=RankRecord)
        except (OSError, msgspec.DecodeError):
            continue
    return found


def _file(folder: Path, rank: int) -> Path:
    return folder / f"memory-rank{rank}.json"
