"""Makes runs of what was read: each is put together in a staged folder, then becomes a run."""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from engine.files.atomic_file import sync_tree, write_atomically
from engine.imports.found_run import FoundRun
from engine.messages.events import (
    AttemptStarted,
    HistogramLogged,
    ImageLogged,
    Metrics,
    Notice,
    Points,
    Progress,
    RunEnded,
    TrainingStarted,
)
from engine.processes.machine import this_machine
from engine.runs.run_notes import RunNotes, write_notes
from engine.runs.store.run_store import RunStore
from engine.spec.run_spec import RunSpec
from engine.spec.spec_file import FILE_NAME, encode_spec
from engine.system import paths

LEFTOVER_SECONDS = 86_400.0
"""Age of a staged folder that a killed program has left."""

RECIPE = "imported"
"""The recipe of an imported run, which has none."""

_AT_ONCE = 20_000
"""Points of one transaction."""

Tick = Callable[[int], None]
"""Called with the number of points that were stored; it may raise to cancel."""


def stage(run: FoundRun, tick: Tick) -> Path:
    """Write `run` into a new staged folder, and return that. Raises OSError and sqlite3.Error.

    On an exception, also of `tick`, nothing is left.
    """
    folder = paths.stage_run_folder()
    try:
        spec = RunSpec(
            recipe=RECIPE,
            strategy=f"imported/{run.kind}",
            devices=(),
            name=run.name,
            settings=dict(run.settings),
            imported_from=run.source,
        )
        environment = {"python": platform.python_version(), "platform": platform.platform()}
        write_atomically(folder / FILE_NAME, encode_spec(spec, environment))
        if run.tags or run.note:
            write_notes(folder, RunNotes(tags=run.tags, note=run.note))
        _write_store(folder, run, tick)
        sync_tree(folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder


def discard(folder: Path) -> None:
    """Delete a staged folder."""
    shutil.rmtree(folder, ignore_errors=True)


def _write_store(folder: Path, run: FoundRun, tick: Tick) -> None:
    times = [time for columns in run.series.values() for time in _ends(columns.times)]
    times += [image.time for image in run.images]
    times += [histogram.time for histogram in run.histograms]
    begin, end = min(times), max(times)
    store = RunStore(folder)
    try:
        # The process that imports it is no supervisor that could be asked or ended.
        store.append(AttemptStarted(1, 0, 0.0, this_machine()), begin)
        store.append(Notice(f"Imported from {run.source}."), begin)
        for text in run.remarks:
            store.append(Notice(text), begin)
        if run.directions:
            directions = dict[str, str](run.directions)
            store.append(TrainingStarted(0, 0, 0, 0, 0, metric_directions=directions), begin)
        for series, columns in run.series.items():
            for points in _parts(series, *columns.sorted()):
                store.append(Metrics(begin, end, [points]), end)
                store.commit()
                tick(len(points.steps))
        _write_media(folder, run, store)
        step = max((max(columns.steps) for columns in run.series.values()), default=0)
        store.append(Progress(0, step, 0.0, 0.0, 0.0), end)
        store.append(RunEnded("finished", f"Imported from {run.source}."), end)
    finally:
        store.close()


def _write_media(folder: Path, run: FoundRun, store: RunStore) -> None:
    for each in run.histograms:
        event = HistogramLogged(each.series, each.step, each.edges, each.counts)
        store.append(event, each.time)
    if run.images:
        (folder / "media").mkdir(mode=0o700)
    for number, image in enumerate(run.images):
        stem = re.sub(r"[^\w.-]+", "-", image.series, flags=re.ASCII).strip(".-")[:60]
        name = f"media/{stem or 'image'}-{image.step}-{number}.png"
        descriptor = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(image.png)
        store.append(ImageLogged(image.series, image.step, name, *image.size), image.time)


def _parts(
    series: str, steps: list[int], times: list[float], values: list[float]
) -> Iterator[Points]:
    points = zip(steps, times, values, strict=True)
    while part := list(islice(points, _AT_ONCE)):
        some_steps, some_times, some_values = map(list, zip(*part, strict=True))
        yield Points(series, some_steps, some_values, some_times)


def _ends(times: Sequence[float]) -> tuple[float, ...]:
    return (min(times), max(times)) if times else ()
