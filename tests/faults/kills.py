"""`python -m tests.faults.kills --count 200` kills writers of stores and checkpoints.

Half of the writers append points and events to a `RunStore`, the others save checkpoints; both
acknowledge through a pipe what is committed. Each is killed at a random moment. Then its files are
opened: nothing that was acknowledged may be missing, and no incomplete checkpoint may be visible.
Finally a writer of checkpoints is killed before each of its system calls that change the disk.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from engine.runs.checkpoints import checkpoint_files
from engine.runs.store.run_store import FILE_NAME
from engine.runs.store.store_reader import RunReader
from tests.faults.kill_writers import (
    SERIES,
    Writer,
    content,
    save,
    value,
    write_checkpoints,
    write_points,
)

CHAIN = 20
"""Kills after which new folders are begun."""

LONGEST, LIVES = 0.09, 5
"""Longest life of a writer in seconds; on a slow machine, this many times the time until its first
acknowledgement."""


class Outcome(msgspec.Struct):
    """The result of all the kills."""

    kills: int = 0
    acknowledged: int = 0
    """Points and checkpoints that the writers acknowledged."""

    incomplete: int = 0
    """Kills during a save: they left a checkpoint under its temporary name."""

    faults: list[str] = []


class KilledWriter(NamedTuple):
    """A writer that was killed."""

    folder: Path
    acknowledged: int
    """The last number that it acknowledged."""


Finder = Callable[[KilledWriter], Iterator[str]]
"""Checks the files that a killed writer left, and yields a sentence for each fault."""


def killed(folder: Path, write: Writer, after: float, before: int = 0) -> KilledWriter:
    """Let a process `write` to `folder`, and kill it `after` seconds. `before` is the number that
    earlier writers acknowledged."""
    pid, read_end = _started(folder, write, seed=after)
    time.sleep(after)
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL, "the writer failed by itself"
    with os.fdopen(read_end, "rb") as pipe:
        received = pipe.read()
    return KilledWriter(folder, int.from_bytes(received[-8:], "little") if received else before)


def longest_life(home: Path) -> float:
    """Seconds that a writer should live, measured on this machine."""
    longest = LONGEST
    for write in (write_points, write_checkpoints):
        folder = home / write.__name__
        folder.mkdir()
        begun = time.monotonic()
        pid, read_end = _started(folder, write, seed=0.0)
        with os.fdopen(read_end, "rb") as pipe:
            pipe.read(8)
            longest = max(longest, LIVES * (time.monotonic() - begun))
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return min(longest, 10 * LONGEST)


def _started(folder: Path, write: Writer, seed: float) -> tuple[int, int]:
    """Start a writer; return its pid and the pipe with its acknowledgements."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read_end)
        random.seed(seed)
        with contextlib.suppress(BaseException):
            write(folder, lambda number: _write_all(write_end, number.to_bytes(8, "little")))
        os._exit(1)
    os.close(write_end)
    return pid, read_end


def _write_all(descriptor: int, data: bytes) -> None:
    os.write(descriptor, data)  # eight bytes into a pipe are written whole or not at all


def faults_of_points(writer: KilledWriter) -> Iterator[str]:
    """The faults of the store that a killed writer left."""
    try:
        reader = RunReader(writer.folder)
    except sqlite3.OperationalError as error:
        if writer.acknowledged:
            yield f"{writer.folder}: {error}"
        return
    with reader:
        status = reader.status()
        if status.step < writer.acknowledged:
            yield (
                f"{writer.folder}: step {writer.acknowledged} was acknowledged, "
                f"{status.step} is there"
            )
        wanted = list(range(1, status.step + 1))
        for series in SERIES if wanted else ():
            parts = list(reader.batches(series))  # one read returns a limited number of points
            steps = [step for part in parts for step in part.step.tolist()]
            values = [each for part in parts for each in part.value.tolist()]
            if steps != wanted:
                yield f"{writer.folder}: {series} has {len(steps)} points, not {status.step}"
            elif values != [value(step) for step in wanted]:
                yield f"{writer.folder}: {series} has other values than were written"
            statistics = reader.history(series, most=100)
            if wanted and statistics.value.max() != value(status.step):
                yield f"{writer.folder}: the overview of {series} lacks its newest point"
    with contextlib.closing(sqlite3.connect(writer.folder / FILE_NAME)) as file:
        verdict = file.execute("PRAGMA integrity_check").fetchall()
    if verdict != [("ok",)]:
        yield f"{writer.folder}: integrity_check says {verdict}"


def faults_of_checkpoints(writer: KilledWriter) -> Iterator[str]:
    """The faults of the checkpoints that a killed writer left."""
    steps = []
    for step, folder in checkpoint_files.folders(writer.folder).items():
        try:
            checkpoint_files.verify(folder)
        except checkpoint_files.CheckpointDamaged as error:
            yield f"{writer.folder}: {error}"
            continue
        steps.append(step)
        if (folder / "tensors" / "shard").read_bytes() != content(step):
            yield f"{writer.folder}: {folder.name} holds something else"
    if writer.acknowledged and max(steps, default=0) < writer.acknowledged:
        yield (
            f"{writer.folder}: checkpoint {writer.acknowledged} was acknowledged, "
            f"the newest is {steps[-1:]}"
        )
    checkpoint_files.remove_unfinished(writer.folder)
    rest = {path.name for path in (writer.folder / checkpoint_files.FOLDER).glob("*")}
    if rest != {checkpoint_files.final_folder(writer.folder, step).name for step in steps}:
        yield f"{writer.folder}: {sorted(rest)} are left of {steps}"


def kill_at_random(home: Path, count: int, seed: int) -> Outcome:
    """Kill `count` writers; most continue where a killed one stopped, like a resumed run."""
    rng = random.Random(seed)
    longest = longest_life(home)
    outcome = Outcome()
    chains: list[tuple[Path, Writer, Finder]] = []
    acknowledged: dict[Path, int] = {}
    for number in range(count):
        if number % CHAIN == 0:
            chains = [
                (home / f"points-{number}", write_points, faults_of_points),
                (home / f"checkpoints-{number}", write_checkpoints, faults_of_checkpoints),
            ]
            for folder, _, _ in chains:
                folder.mkdir()
        folder, write, faults = chains[number % 2]
        writer = killed(folder, write, rng.uniform(0, longest), acknowledged.get(folder, 0))
        outcome.kills += 1
        outcome.acknowledged += max(0, writer.acknowledged - acknowledged.get(folder, 0))
        outcome.incomplete += any((folder / checkpoint_files.FOLDER).glob("*.tmp"))
        outcome.faults += faults(writer)
        acknowledged[folder] = writer.acknowledged
    return outcome


CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir"}
"""Audit events of calls that change a folder; opening a file for writing counts as well."""


def kill_at_every_change(home: Path) -> Outcome:
    """Kill a process before each single change of the disk by a save, a mark and a removal."""
    outcome = Outcome()
    while True:
        folder = home / f"change-{outcome.kills}"
        folder.mkdir()
        save(folder, 1)
        checkpoint_files.begin(folder, 2)  # an earlier attempt was killed during a save
        pid = os.fork()
        if pid == 0:
            _die_before_change(outcome.kills)
            save(folder, 2)
            checkpoint_files.add_kinds(checkpoint_files.final_folder(folder, 2), ["best"], {})
            checkpoint_files.remove(checkpoint_files.final_folder(folder, 1))
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        outcome.faults += faults_of_checkpoints(KilledWriter(folder, 1))
        if status == 0:
            return outcome
        outcome.kills += 1


def _die_before_change(number: int) -> None:
    """Let this process be killed at its change number `number`."""
    remaining = number

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal remaining
        writes = event == "open" and isinstance(arguments[1], str) and arguments[1] != "rb"
        if event in CHANGES or writes:
            if remaining == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            remaining -= 1

    sys.addaudithook(watch)


def main() -> int:
    """Kill the writers, and print the result; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as home:
        at_random = kill_at_random(Path(home), options.count, options.seed)
        at_changes = kill_at_every_change(Path(home))
    for name, found in (("at random", at_random), ("at every change", at_changes)):
        print(f"{name}: {msgspec.json.encode(found).decode()}")
    print(f"{time.monotonic() - begun:.1f} s")
    return 1 if at_random.faults or at_changes.faults else 0


if __name__ == "__main__":
    sys.exit(main())
