"""`python -m tests.faults.power_cuts --cuts 30` cuts the power of a disk while runs train on it.

At each cut it notes what was acknowledged until then: settings, recipe, notes, preset, the newest
checkpoint, and the points that a reader saw. What the disk holds at that moment is kept and checked
later: nothing acknowledged may be missing, but the points of the last second, and a resume gives a
curve without gaps. `--disk ext4` needs root; `--disk synced` is a disk that keeps only what was
synced.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import psutil

from engine import client
from engine.messages.commands import SaveCheckpoint, Stop
from engine.messages.events import CheckpointSaved
from engine.runs.checkpoints import checkpoint_files
from engine.runs.run_notes import RunNotes, read_notes, write_notes
from engine.runs.run_state import RunState
from engine.runs.store.run_store import FILE_NAME
from engine.runs.store.store_reader import RunReader
from engine.spec import presets, spec_file
from engine.spec.run_spec import RunSpec
from engine.system import paths
from engine.templates import client as templates
from engine.templates.protocol import FOLDER_VARIABLE
from tests.support.lossy_disks import Disk, Ext4Disk, NoSuchDisk, SyncedOnlyDisk
from tests.support.runs import processes_of, spec, wait_for, wait_for_end, wait_for_event

CUTS_PER_RUN = 6
"""One when the run was just started, one when it has ended, one when it was copied to a new run;
the others at random moments of its training."""

LOSS = "train/loss"
SPEC = spec("endless_counter", "torch/single", epochs=1_000_000, checkpoint_steps=40)
NOTES = RunNotes(name="the good one", tags=("kept",))

SLOW = "SYNCED_ONLY_SECONDS"
"""The variable for the seconds of a slow sync: see `synced_only.c`."""

SKIPPED = 2
"""The exit code where the disk cannot be made."""

Curves = dict[str, list[int]]
"""The steps of the points, by series."""


class Outcome(msgspec.Struct):
    """The result of all the cuts."""

    cuts: int = 0
    with_checkpoint: int = 0
    """Cuts after a checkpoint was acknowledged."""

    resumed: int = 0
    most_seconds_lost: float = 0.0
    """Between the newest point that a reader saw and the newest that was left."""

    faults: list[str] = []


class Seen(NamedTuple):
    """What was acknowledged of one run."""

    spec: RunSpec
    recipe: bytes
    notes: RunNotes
    checkpoint: int
    """The step of its newest checkpoint; 0 if there was none."""

    oldest: float
    newest: float
    """The times of its oldest and newest points; 0.0 if there was none."""


class Cut(NamedTuple):
    """One power cut."""

    number: int
    moment: str
    runs: dict[str, Seen]


def curves_of(folder: Path, last: int = sys.maxsize) -> Curves:
    """The curves of a run up to the step `last`. Raises sqlite3.Error."""
    found: Curves = {}
    with contextlib.closing(sqlite3.connect(folder / FILE_NAME)) as store:
        for name, step in store.execute(
            "SELECT name, step FROM point JOIN series ON id = series WHERE step <= ? "
            "ORDER BY name, i",
            (last,),
        ):
            found.setdefault(name, []).append(step)
    return found


def seen(run_id: str) -> Seen:
    """What a reader sees of a run now."""
    info = client.get_run(run_id)
    with RunReader(info.folder) as reader:
        saved = [e.event for e in reader.events_after(0) if isinstance(e.event, CheckpointSaved)]
        times = reader.points_after(LOSS, 0).time
    return Seen(
        info.spec,
        (info.folder / "recipe.py").read_bytes(),
        info.notes,
        max((event.step for event in saved), default=0),
        *((float(times[0]), float(times[-1])) if len(times) else (0.0, 0.0)),
    )


class Life:
    """Runs on one disk, and the cuts of its power."""

    def __init__(self, disk: Disk, rng: random.Random) -> None:
        self._disk = disk
        self._rng = rng
        self._runs: list[str] = []
        self.cuts: list[Cut] = []

    def live(self, cuts: int) -> None:
        """Train, and cut the power `cuts` times, as if each time were the only one."""
        presets.save("kept", SPEC)
        while len(self.cuts) < cuts:
            self._live_one(min(CUTS_PER_RUN, cuts - len(self.cuts)))

    def _live_one(self, cuts: int) -> None:
        run_id = client.start(SPEC)
        self._runs.append(run_id)
        self._cut("started")
        wait_for_event(run_id, CheckpointSaved)
        for number in range(cuts - 3):
            time.sleep(self._rng.uniform(0.3, 2.0))
            if number == 1:
                write_notes(paths.run_folder(run_id), NOTES)
            if number % 2 == 0:
                wait_for_event(run_id, CheckpointSaved, client.send(run_id, SaveCheckpoint()))
            self._cut("in training")
        client.send(run_id, Stop())
        wait_for_end(run_id)
        if cuts > 1:
            self._cut("ended")
        if cuts > 2:
            new = client.resume_as_new(run_id)
            self._runs.append(new)
            self._cut("copied")
            wait_for(new, lambda info: info.state is RunState.RUNNING)
            client.send(new, Stop())
            wait_for_end(new)

    def _cut(self, moment: str) -> None:
        number = len(self.cuts)
        acknowledged = {run_id: seen(run_id) for run_id in self._runs}
        halted: list[psutil.Process] = []
        for run_id in self._runs:
            info = client.get_run(run_id)
            halted += [] if info.state.is_over else processes_of(info)
        with contextlib.ExitStack() as after:
            for process in halted:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.suspend()
                    after.callback(_let_run, process)
            self._disk.cut(number)
        self.cuts.append(Cut(number, moment, acknowledged))


def _let_run(process: psutil.Process) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.resume()


def faults_after(cut: Cut, lost_seconds: float, outcome: Outcome) -> Iterator[str]:
    """The faults of the data folder that `cut` has left; TRAINDECK_HOME names it."""
    if presets.read(presets.path_of("kept")) != SPEC:
        yield "the preset holds other settings"
    for run_id, known in cut.runs.items():
        folder = paths.run_folder(run_id)
        if spec_file.read_spec(folder) != known.spec:
            yield f"run {run_id}: its settings are others"
        if (folder / "recipe.py").read_bytes() != known.recipe:
            yield f"run {run_id}: its recipe is another"
        if read_notes(folder) != known.notes:
            yield f"run {run_id}: its notes are {read_notes(folder)}"
        steps = checkpoint_files.folders(folder)
        for saved in steps.values():
            checkpoint_files.verify(saved)
        if max(steps, default=0) < known.checkpoint:
            yield f"run {run_id}: the checkpoint of step {known.checkpoint} is lost, not {steps}"
        info = client.get_run(run_id)
        if known.checkpoint and not info.state.is_over:
            yield f"run {run_id}: it is {info.state}"
        with RunReader(folder) as reader:
            times = reader.points_after(LOSS, 0).time
        lost = known.newest - (times[-1] if len(times) else known.oldest)
        outcome.most_seconds_lost = max(outcome.most_seconds_lost, float(lost))
        if lost > lost_seconds:
            yield f"run {run_id}: {lost:.1f} s of its points are lost"


def faults_of_points(live: Path, found: Path, last: int) -> Iterator[str]:
    """The points before a checkpoint at step `last` that the store in `live` has and the store in
    `found` has not. Devices and the validation may add points of this step after the checkpoint.

    The points of devices are not kept beside a checkpoint: a slow disk may lose them."""
    there = curves_of(found, last - 1)
    for name, steps in curves_of(live, last - 1).items():
        if name.startswith("device/") and SLOW in os.environ:
            continue
        if there.get(name, []) != steps:
            yield f"{name} has {len(there.get(name, []))} of {len(steps)} points up to step {last}"


def resumed(run_id: str) -> Iterator[str]:
    """Resume a run from its newest checkpoint, stop it, and yield the gaps of its curve."""
    before = client.get_run(run_id).status.attempt
    client.resume(run_id)
    wait_for(
        run_id,
        lambda info: (
            info.status.attempt > before
            and info.state is RunState.RUNNING
            and info.status.step > info.status.checkpoint_step
        ),
    )
    client.send(run_id, Stop())
    info = wait_for_end(run_id)
    steps = curves_of(info.folder)[LOSS]
    if steps != list(range(1, info.status.step + 1)):
        yield f"run {run_id}: after a resume it has {len(steps)} points at step {info.status.step}"


def check(disk: Disk, cut: Cut, live: Path, lost_seconds: float, outcome: Outcome) -> None:
    """Look at what `cut` has left, and resume from there."""
    with disk.after(cut.number) as folder:
        os.environ[paths.HOME_VARIABLE] = str(folder / "home")
        where = f"cut {cut.number}, {cut.moment}"
        try:
            found = list(faults_after(cut, lost_seconds, outcome))
            names = [paths.run_folder(run_id).relative_to(folder) for run_id in cut.runs]
            last = [max(checkpoint_files.folders(folder / name), default=0) for name in names]
            newest = max(cut.runs, key=int)
            if not found and cut.runs[newest].checkpoint:
                outcome.with_checkpoint += 1
                found += resumed(newest)  # it may read points from beside the checkpoint
                outcome.resumed += 1
            for name, step in zip(names, last, strict=True):
                found += faults_of_points(live / name, folder / name, step)
        except Exception as error:  # whatever the damage makes of it
            found = [f"{type(error).__name__}: {error}"]
        outcome.cuts += 1
        outcome.faults += [f"{where}: {fault}" for fault in found]


def cut_all(disk: Disk, cuts: int, seed: int, lost_seconds: float) -> Outcome:
    """Cut the power `cuts` times, then check each."""
    home = disk.folder / "home"
    os.environ[paths.HOME_VARIABLE] = str(home)
    report = home.with_name("cuts")
    pid = os.fork()
    if pid == 0:  # the process that started a run is gone after a power cut
        try:
            life = Life(disk, random.Random(seed))
            life.live(cuts)
            report.write_bytes(msgspec.msgpack.encode(life.cuts))
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    outcome = Outcome()
    for cut in msgspec.msgpack.decode(report.read_bytes(), type=list[Cut]):
        check(disk, cut, disk.folder, lost_seconds, outcome)
    return outcome


def _disk(kind: str, place: Path) -> Disk:
    return Ext4Disk(place) if kind == "ext4" else SyncedOnlyDisk(place)


def _with_library(sync_seconds: int | None) -> int:
    """Start this program again with the library that takes the place of fsync."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        arguments = [sys.executable, "-m", "tests.faults.power_cuts", *sys.argv[1:]]
        environment = os.environ | SyncedOnlyDisk.environment(Path(place))
        if sync_seconds:
            environment[SLOW] = str(sync_seconds)
        environment.pop(FOLDER_VARIABLE, None)  # the workers of other templates lack the library
        done = subprocess.run([*arguments, "--place", place], env=environment, check=False)
    return done.returncode


def main() -> int:
    """Cut the power, and print the result; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cuts", type=int, default=30)
    parser.add_argument("--disk", choices=("ext4", "synced"), default="ext4")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lost-seconds", type=float, default=1.0, help="of points, at the most")
    parser.add_argument("--sync-seconds", type=int, help="of each sync of a store (synced only)")
    parser.add_argument("--place", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    begun = time.monotonic()
    try:
        if options.disk == "synced" and not options.place:
            return _with_library(options.sync_seconds)
        with contextlib.ExitStack() as end:
            place = options.place or Path(
                end.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
            )
            disk = _disk(options.disk, place)
            end.callback(disk.close)
            if FOLDER_VARIABLE not in os.environ:
                os.environ[FOLDER_VARIABLE] = str(place / "templates")
                end.callback(templates.end_all)
            outcome = cut_all(disk, options.cuts, options.seed, options.lost_seconds)
    except NoSuchDisk as error:
        print(f"skipped: {error}")
        return SKIPPED
    print(f"outcome: {msgspec.json.encode(outcome).decode()}")
    print(f"{time.monotonic() - begun:.1f} s")
    return 1 if outcome.faults else 0


if __name__ == "__main__":
    sys.exit(main())
