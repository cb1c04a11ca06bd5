"""What every export reads of a run: its facts, points, images and histograms."""

from __future__ import annotations

import math
import re
import sqlite3
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple, Self

from engine.files.regular_file import UnfitFile, read_regular
from engine.messages.events import Event, HistogramLogged, ImageLogged, Rewound
from engine.runs.best_metrics import BestFigure, best_figures
from engine.runs.run_info import RunInfo
from engine.runs.store.store_reader import RunReader, StoredEvent
from engine.scripts.secrets import shown_setting, shown_words
from engine.spec.field_info import Setting
from engine.spec.run_spec import FIELDS, RunSpec
from engine.spec.script_spec import DECIDED_BY_SCRIPT

LARGEST_IMAGE = 32 * 2**20
"""Bytes of an image that is exported, and that the window shows."""

_OF_THE_MACHINE = frozenset(
    {
        *("queue", "keep_awake", "cold_start", "tensorboard", "tensorboard_folder"),
        *("stop_seconds", "orphan_seconds", "hang_minutes", "max_restarts", "on_disk_full"),
        *("checkpoint_minutes", "checkpoint_steps", "checkpoint_epochs", "keep_checkpoints"),
        *("min_machines", "shared_folder"),
    }
)
"""Settings that change nothing of what a run computes: they are no hyperparameters."""

_MEDIA = "media"
_LONGEST_NAME = 60
_MOST_EVENTS = 1_000_000


class Image(NamedTuple):
    """A logged image that later steps have not taken back."""

    time: float
    event: ImageLogged


class Histogram(NamedTuple):
    """A logged histogram that later steps have not taken back."""

    time: float
    event: HistogramLogged


class RunSource:
    """Reads one run. Every method may raise sqlite3.Error."""

    def __init__(self, info: RunInfo) -> None:
        """Open the store of the run; one that was never started has none, and no points."""
        self.info = info
        self.reader: RunReader | None = None
        if info.status.attempt or (info.folder / "run.sqlite").exists():
            self.reader = RunReader(info.folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the store."""
        if self.reader is not None:
            self.reader.close()

    def counts(self) -> dict[str, int]:
        """Return the number of points by series, in the order of their names."""
        counts = self.reader.counts() if self.reader else {}
        return {name: counts[name] for name in sorted(counts) if counts[name]}

    def events(self) -> list[StoredEvent]:
        """Return all events, oldest first."""
        return all_events(self.reader) if self.reader else []

    def best(self) -> dict[str, BestFigure]:
        """Return the best value of each metric of the validation."""
        return best_figures(self.reader) if self.reader else {}

    def last(self) -> dict[str, float]:
        """Return the newest value of each series, in the order of their names."""
        found = self.reader.newest_values() if self.reader else {}
        return dict(sorted(found.items()))


def all_events(reader: RunReader, after: int = 0) -> list[StoredEvent]:
    """Return the events after number `after`, oldest first. Raises sqlite3.Error."""
    found: list[StoredEvent] = []
    while len(found) < _MOST_EVENTS and (more := reader.events_after(after)):
        found += more
        after = more[-1].seq
    return found


def media(events: Sequence[StoredEvent]) -> list[Image | Histogram]:
    """Return the images and histograms of `events`, without those that a rewind took back."""
    found: list[Image | Histogram] = []
    for stored in events:
        event: Event = stored.event
        if isinstance(event, Rewound):
            found = [each for each in found if each.event.step <= event.step]
        elif isinstance(event, ImageLogged):
            found.append(Image(stored.time, event))
        elif isinstance(event, HistogramLogged):
            found.append(Histogram(stored.time, event))
    return found


def read_image(folder: Path, event: ImageLogged) -> bytes:
    """Return the PNG of a logged image of the run in `folder`. Raises OSError.

    The event comes from a script: only a regular file in the run's folder of images is read.
    """
    name = PurePosixPath(event.file)
    if name.parts[:1] != (_MEDIA,) or ".." in name.parts or "\0" in event.file:
        raise UnfitFile(f"{event.file!r} is not in the folder of images of the run")
    path = folder / name
    if not path.parent.resolve().is_relative_to(folder.resolve() / _MEDIA):
        raise UnfitFile(f"{event.file!r} is not in the folder of images of the run")
    return read_regular(path, LARGEST_IMAGE)


def settings_of(spec: RunSpec) -> dict[str, Setting]:
    """Return the settings that decide what the run computes, by their name.

    A setting of the recipe that has the name of one of ours gets `recipe.` in front.
    """
    found: dict[str, Setting] = {}
    if not spec.is_imported:
        without = _OF_THE_MACHINE | (DECIDED_BY_SCRIPT if spec.is_script else frozenset())
        found = {name: getattr(spec, name) for name in FIELDS if name not in without}
    for name, value in spec.settings.items():
        found[f"recipe.{name}" if name in found else name] = shown_setting(name, value)
    return found


def source_of(spec: RunSpec) -> str:
    """Return what was run: a recipe, the command of a script, or what was imported."""
    if spec.is_imported:
        return spec.imported_from
    return " ".join(shown_words(spec.command)) if spec.is_script else spec.recipe


def seconds_of(info: RunInfo, now: float) -> float:
    """Return the duration of the run; of one that is not over, until `now`."""
    return info.status.seconds(info.status.updated if info.state.is_over else now)


def file_stem(info: RunInfo) -> str:
    """Return the id and the name of a run as a part of a file name, whatever the name is."""
    name = re.sub(r"[^\w-]+", "-", info.name, flags=re.ASCII).strip("-_")[:_LONGEST_NAME]
    return f"{info.id.replace(':', '-')}-{name}".strip("-")  # of another machine: gpus:7


def as_text(value: float) -> str:
    """Return a number as the shortest text from which the same number can be read."""
    return "NaN" if math.isnan(value) else repr(value)


EXPORT_ERRORS = (OSError, sqlite3.Error)
"""What reading a run and writing a file may raise."""
