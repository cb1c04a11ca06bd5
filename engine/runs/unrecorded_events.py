"""The events that a worker could not send to its supervisor, kept in the folder of a checkpoint.

Workers that lost their supervisor write them; the next attempt records them.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from engine.files.atomic_file import write_atomically
from engine.messages.events import WorkerEvent
from engine.runs.checkpoints import checkpoint_files

LARGEST_FILE = 2**30
"""Bytes; larger files are not read. A worker keeps at most some 100 MB."""


class NumberedEvent(NamedTuple):
    """An event of a worker."""

    number: int
    """Its place among the events of its worker in one attempt, from 1."""

    time: float
    """When it happened (seconds since the epoch)."""

    event: WorkerEvent


class _File(msgspec.Struct, frozen=True):
    attempt: int
    rank: int
    events: Sequence[NumberedEvent]


def write(checkpoint: Path, attempt: int, rank: int, events: Sequence[NumberedEvent]) -> None:
    """Write the events of one worker into the folder `checkpoint`. Raises OSError."""
    content = msgspec.msgpack.encode(_File(attempt, rank, events))
    write_atomically(checkpoint / checkpoint_files.unrecorded(rank), content, sync=True)


def read(
    folder: Path, attempt: int, recorded: Mapping[int, int]
) -> Iterator[tuple[int, NumberedEvent]]:
    """Yield the events of the workers of number `attempt` with their rank, by time.

    `recorded` is how many events of each rank the store of the run in `folder` has; those are left
    out. A file that cannot be read counts as missing.
    """
    by_rank: dict[int, dict[int, NumberedEvent]] = {}
    for file in sorted((folder / checkpoint_files.FOLDER).glob(f"step-*/{_PATTERN}")):
        found = _read(file)
        if found is not None and found.attempt == attempt:
            by_rank.setdefault(found.rank, {}).update((each.number, each) for each in found.events)
    ordered = (
        [(rank, each) for number, each in sorted(found.items()) if number > recorded.get(rank, 0)]
        for rank, found in by_rank.items()
    )
    # Merged and not sorted: the events of a rank keep their order when the clock was set.
    yield from heapq.merge(*ordered, key=lambda pair: pair[1].time)


_PATTERN = checkpoint_files.unrecorded("*")


def _read(file: Path) -> _File | None:
    try:
        if file.is_symlink() or not file.is_file() or file.stat().st_size > LARGEST_FILE:
            return None
        return msgspec.msgpack.decode(file.read_bytes(), type=_File)
    except (OSError, ValueError, RecursionError):
        return None
