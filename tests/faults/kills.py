"""`python -m tests.faults.kills --count 200`: writers of stores and checkpoints, killed at work.

Half of the writers append points and events to a `RunStore` and say through a pipe what is
committed; the others save checkpoints. All are killed at a random moment. Then what is left is
opened: nothing that was acknowledged may be missing, and no half checkpoint may be seen. At last
a writer of checkpoints is killed at each of its system calls that changes the disk, one by one.
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

from engine.runs import checkpoint_files
from engine.runs.store import FILE_NAME
from engine.runs.store_reader import RunReader
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
"""Seconds that a writer lives at the most; on a slow machine so many times its way to the first
word."""


class Outcome(msgspec.Struct):
    """What was found after all the kills."""

    kills: int = 0
    acknowledged: int = 0
    """Points and checkpoints that writers said were there."""

    half_way: int = 0
    """Kills that left a checkpoint under its temporary name: those hit a save."""

    faults: list[str] = []


class Dead(NamedTuple):
    """A writer that was killed."""

    folder: Path
    said: int
    """The last number that it acknowledged."""


Finder = Callable[[Dead], Iterator[str]]
"""Looks at what a writer left, and yields what is wrong with it."""


def killed(folder: Path, write: Writer, after: float, before: int = 0) -> Dead:
    """Let a process `write` into `folder`, and kill it `after` seconds. `before` is what earlier
    ones acknowledged."""
    pid, ear = _started(folder, write, seed=after)
    time.sleep(after)
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL, "the writer failed by itself"
    with os.fdopen(ear, "rb") as words:
        heard = words.read()
    return Dead(folder, int.from_bytes(heard[-8:], "little") if heard else before)


def longest_life(home: Path) -> float:
    """Seconds in which a writer comes to write something, on this machine, now."""
    longest = LONGEST
    for write in (write_points, write_checkpoints):
        folder = home / write.__name__
        folder.mkdir()
        begun = time.monotonic()
        pid, ear = _started(folder, write, seed=0.0)
        with os.fdopen(ear, "rb") as words:
            words.read(8)
            longest = max(longest, LIVES * (time.monotonic() - begun))
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return min(longest, 10 * LONGEST)


def _started(folder: Path, write: Writer, seed: float) -> tuple[int, int]:
    """A process that writes, and where its words can be read."""
    ear, mouth = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(ear)
        random.seed(seed)
        with contextlib.suppress(BaseException):
            write(folder, lambda number: _write_all(mouth, number.to_bytes(8, "little")))
        os._exit(1)
    os.close(mouth)
    return pid, ear


def _write_all(descriptor: int, data: bytes) -> None:
    os.write(descriptor, data)  # eight bytes into a pipe are written whole or not at all


def faults_of_points(dead: Dead) -> Iterator[str]:
    """What is wrong with the store that a dead writer left."""
    try:
        reader = RunReader(dead.folder)
    except sqlite3.OperationalError as error:
        if dead.said:
            yield f"{dead.folder}: {error}"
        return
    with reader:
        status = reader.status()
        if status.step < dead.said:
            yield f"{dead.folder}: step {dead.said} was acknowledged, {status.step} is there"
        wanted = list(range(1, status.step + 1))
        for series in SERIES if wanted else ():
            found = reader.points_after(series, 0)
            if found.step.tolist() != wanted:
                yield f"{dead.folder}: {series} has {len(found.step)} points, not {status.step}"
            elif found.value.tolist() != [value(step) for step in wanted]:
                yield f"{dead.folder}: {series} has other values than were written"
            rough = reader.history(series, most=100)
            if wanted and rough.value.max() != value(status.step):
                yield f"{dead.folder}: the overview of {series} lacks its newest point"
    with contextlib.closing(sqlite3.connect(dead.folder / FILE_NAME)) as file:
        verdict = file.execute("PRAGMA integrity_check").fetchall()
    if verdict != [("ok",)]:
        yield f"{dead.folder}: integrity_check says {verdict}"


def faults_of_checkpoints(dead: Dead) -> Iterator[str]:
    """What is wrong with the checkpoints that a dead writer left."""
    steps = []
    for step, folder in checkpoint_files.folders(dead.folder).items():
        try:
            checkpoint_files.verify(folder)
        except checkpoint_files.CheckpointDamaged as error:
            yield f"{dead.folder}: {error}"
            continue
        steps.append(step)
        if (folder / "tensors" / "shard").read_bytes() != content(step):
            yield f"{dead.folder}: {folder.name} holds something else"
    if dead.said and max(steps, default=0) < dead.said:
        yield f"{dead.folder}: checkpoint {dead.said} was acknowledged, the newest is {steps[-1:]}"
    checkpoint_files.remove_unfinished(dead.folder)
    rest = {path.name for path in (dead.folder / checkpoint_files.FOLDER).glob("*")}
    if rest != {checkpoint_files.final_folder(dead.folder, step).name for step in steps}:
        yield f"{dead.folder}: {sorted(rest)} are left of {steps}"


def kill_at_random(home: Path, count: int, seed: int) -> Outcome:
    """Kill `count` writers; most go on where a dead one stopped, as a resumed run does."""
    rng = random.Random(seed)
    longest = longest_life(home)
    outcome = Outcome()
    chains: list[tuple[Path, Writer, Finder]] = []
    said: dict[Path, int] = {}
    for number in range(count):
        if number % CHAIN == 0:
            chains = [
                (home / f"points-{number}", write_points, faults_of_points),
                (home / f"checkpoints-{number}", write_checkpoints, faults_of_checkpoints),
            ]
            for folder, _, _ in chains:
                folder.mkdir()
        folder, write, faults = chains[number % 2]
        dead = killed(folder, write, rng.uniform(0, longest), said.get(folder, 0))
        outcome.kills += 1
        outcome.acknowledged += max(0, dead.said - said.get(folder, 0))
        outcome.half_way += any((folder / checkpoint_files.FOLDER).glob("*.tmp"))
        outcome.faults += faults(dead)
        said[folder] = dead.said
    return outcome


CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir"}
"""Audit events of calls that change a folder; a file that is opened to be written is one, too."""


def kill_at_every_change(home: Path) -> Outcome:
    """Kill a process before each single change that a save, a mark and a removal make."""
    outcome = Outcome()
    while True:
        folder = home / f"change-{outcome.kills}"
        folder.mkdir()
        save(folder, 1)
        checkpoint_files.begin(folder, 2)  # an earlier attempt did not come to an end
        pid = os.fork()
        if pid == 0:
            _die_before_change(outcome.kills)
            save(folder, 2)
            checkpoint_files.add_kinds(checkpoint_files.final_folder(folder, 2), ["best"], {})
            checkpoint_files.remove(checkpoint_files.final_folder(folder, 1))
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        outcome.faults += faults_of_checkpoints(Dead(folder, 1))
        if status == 0:
            return outcome
        outcome.kills += 1


def _die_before_change(number: int) -> None:
    """Let this process be killed at its change number `number`."""
    left = number

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        writes = event == "open" and isinstance(arguments[1], str) and arguments[1] != "rb"
        if event in CHANGES or writes:
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1

    sys.addaudithook(watch)


def main() -> int:
    """Kill, look, and say what was found; the exit code."""
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
