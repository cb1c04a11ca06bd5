"""A sweep on disk: what was asked for, and whether its driver runs."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Literal

import msgspec
import tomli_w

from engine.files.atomic_file import write_atomically
from engine.files.regular_file import read_regular, read_toml
from engine.processes import presence
from engine.processes.process import start_module
from engine.runs.run_notes import SWEEP_TAG
from engine.spec import catalog
from engine.spec.field_info import Setting
from engine.spec.recipe_copy import write_copy
from engine.spec.run_spec import FIELDS, RunSpec
from engine.spec.spec_fields import LARGEST
from engine.spec.spec_file import migrate_spec
from engine.sweeps.ranges import CannotSweep, Range, range_problem
from engine.system import paths

FOLDER = "sweeps"
FILE_NAME = "sweep.toml"
JOURNAL = "journal.log"
LOCK = "driver.lock"
"""Held by the driver while it runs."""

STOP = "stop"
"""A file that asks the driver to stop."""

REASON = "reason"
"""A file with the sentence why no more trials are started; empty: they are, or the user has stopped
the sweep."""

LOG = "driver.log"
MOST_TRIALS = 10_000
_LONGEST_REASON = 64 * 2**10
"""Bytes."""

LONGEST_START = 60.0
"""Seconds in which the driver imports Optuna and takes the lock."""


Sampler = Literal["tpe", "random", "grid"]
Pruner = Literal["none", "median", "successive-halving"]


class NoSuchSweep(Exception):
    """There is no sweep with this number, or its file cannot be read; the text is a sentence."""


class SweepActive(Exception):
    """The driver of the sweep runs already; the text is a sentence."""


class Sweep(msgspec.Struct, frozen=True, kw_only=True):
    """What a sweep varies, and how. Raises CannotSweep if that is not possible."""

    base: RunSpec
    """What all runs have; the first values of the ranges are in it."""

    ranges: dict[str, Range]
    """By the name of a field, or of a setting of the recipe."""

    own_settings: tuple[str, ...] = ()
    """Those of `ranges` that are settings of the recipe."""

    trials: int
    sampler: Sampler = "tpe"
    pruner: Pruner = "none"
    metric: str = ""
    """A series, or its name without the data set; empty: the loss. See `series`."""

    lowest: bool = True
    """Whether low values are better."""

    parallel: int = 1
    """Runs at one time; each has an equal part of the devices."""

    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.trials <= MOST_TRIALS:
            raise CannotSweep(f"A sweep has 1 to {MOST_TRIALS:,} runs, not {self.trials:,}.")
        if not 0 <= self.seed <= LARGEST:
            raise CannotSweep(f"The seed of a sampler is 0 to {LARGEST}, not {self.seed}.")
        if self.parallel < 1:
            raise CannotSweep("A sweep needs at least 1 run at one time.")
        count = len(self.base.devices)
        if count > 1 and count % self.parallel:
            raise CannotSweep(
                f"{count} devices cannot be shared equally by {self.parallel} runs: choose "
                "another number of runs at one time, or other devices."
            )
        if not self.ranges:
            raise CannotSweep(
                "A sweep needs a range: learning_rate=1e-4..1e-1:log, or batch_size=16,32,64."
            )
        if unknown := self.ranges.keys() - FIELDS.keys() - set(self.own_settings):
            raise CannotSweep(f"There is no setting {min(unknown)}.")
        for name, each in self.ranges.items():
            if problem := range_problem(name, each):
                raise CannotSweep(problem)

    def spec_of(self, values: Mapping[str, Setting], slot: int) -> RunSpec:
        """Return the settings of a run with `values` in place `slot` (from 0)."""
        fields = {name: each for name, each in values.items() if name not in self.own_settings}
        own = {name: each for name, each in values.items() if name in self.own_settings}
        return msgspec.structs.replace(
            self.base,
            devices=self.devices_of(slot),
            settings={**self.base.settings, **own},
            **fields,
        )

    def best_spec(self, values: Mapping[str, Setting]) -> RunSpec:
        """Return the settings of a run with `values` on all devices of the sweep."""
        return msgspec.structs.replace(self.spec_of(values, 0), devices=self.base.devices)

    def series(self, known: Collection[str], *, is_over: bool = True) -> str:
        """Return which of the `known` series of a run is to be best.

        Of one that is not over, nothing of the training counts in the place of the validation,
        which may be still to come.
        """
        metric = self.metric or "loss"
        names = (metric, f"validation/{metric}", *[f"train/{metric}"] * is_over)
        return next((each for each in names if each in known), metric)

    def devices_of(self, slot: int) -> tuple[str, ...]:
        """Return the devices of the run in place `slot`."""
        devices = self.base.devices
        size = len(devices) // self.parallel
        if not size:
            return devices  # of one device, all have that
        return devices[slot * size : (slot + 1) * size]


def folder_of(number: str) -> Path:
    """Return the folder of a sweep. Raises NoSuchSweep."""
    folder = paths.home() / FOLDER / number
    if not number.isdecimal() or not (folder / FILE_NAME).is_file():
        known = ", ".join(each.name for each in folders()) or "none"
        raise NoSuchSweep(f"There is no sweep {number}; there are: {known}.")
    return folder


def folders() -> list[Path]:
    """Return the folders of all sweeps, newest first."""
    folder = paths.home() / FOLDER
    found = [each for each in folder.iterdir() if each.name.isdecimal()] if folder.is_dir() else []
    return sorted(found, key=lambda each: int(each.name), reverse=True)


def create(sweep: Sweep) -> Path:
    """Write a new sweep with a copy of its recipe, and return its folder. Raises OSError."""
    parent = paths.private_folder(FOLDER)
    number = max((int(each.name) for each in folders()), default=0)
    while True:
        number += 1
        folder = parent / str(number)
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            continue
        break
    write_copy(folder, catalog.recipe_of(sweep.base))
    write_atomically(
        folder / FILE_NAME, tomli_w.dumps(msgspec.to_builtins(sweep)), mode=0o600, sync=True
    )
    note_reason(folder, "")  # takes the room
    return folder


def read(folder: Path) -> Sweep:
    """Return the sweep in a folder. Raises NoSuchSweep."""
    try:
        stored = read_toml(folder / FILE_NAME)
        return msgspec.convert(stored | {"base": migrate_spec(stored.get("base"))}, Sweep)
    except (OSError, ValueError) as error:
        raise NoSuchSweep(f"Sweep {folder.name} cannot be read: {error}.") from error


def tag_of(sweep: str) -> str:
    """Return the tag of the runs of a sweep."""
    return f"{SWEEP_TAG}{sweep}"


def is_active(folder: Path) -> bool:
    """Whether the driver of a sweep runs."""
    return presence.is_locked(folder / LOCK)


def drive(folder: Path) -> int:
    """Start the driver of a sweep, which outlives this process; return its pid once it drives.

    Raises SweepActive, NoSuchSweep, or OSError if it ends before.
    """
    read(folder)
    if is_active(folder):
        raise SweepActive(f"Sweep {folder.name} is active already.")
    with contextlib.suppress(FileNotFoundError):
        (folder / STOP).unlink()
    process = start_module(
        "engine.sweeps.driver",
        str(folder),
        log=folder / LOG,
        environment=os.environ,
        own_session=True,
    )
    deadline = time.monotonic() + LONGEST_START
    while not is_active(folder) and process.poll() is None:
        if time.monotonic() > deadline:
            process.kill()
            raise TimeoutError(f"The sweep did not start within {LONGEST_START:.0f} s.")
        time.sleep(0.02)
    if process.poll():
        lines = (folder / LOG).read_text(errors="replace").strip().splitlines()
        raise OSError(f"The sweep could not be started: {lines[-1] if lines else 'see its log'}")
    threading.Thread(target=process.wait, daemon=True, name="reap").start()
    return process.pid


def note_reason(folder: Path, reason: str) -> None:
    """Keep why no more trials are started, as a sentence; empty: they are.

    The file is written in its place, for which a full disk has room.
    """
    with contextlib.suppress(OSError):
        (folder / REASON).touch(mode=0o600)
        with (folder / REASON).open("r+b") as file:
            file.write(f"{reason}\n".encode(errors="replace")[:_LONGEST_REASON])
            file.truncate()


def reason_of(folder: Path) -> str:
    """Return what `note_reason` has kept; sweeps of older versions have nothing."""
    try:
        return read_regular(folder / REASON, _LONGEST_REASON).decode(errors="replace").strip()
    except OSError:
        return ""


def ask_to_stop(folder: Path) -> None:
    """Ask the driver to stop: its runs save and end, and go on when the sweep does."""
    write_atomically(folder / STOP, "", mode=0o600)
