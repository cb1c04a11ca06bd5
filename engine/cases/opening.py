"""Makes of a failure file a run that is over: it is shown as any other, and never executed."""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np

from engine.cases.case_file import LARGEST_READ, NAME, Manifest, UnfitCase, read_case
from engine.cases.collection import Points
from engine.cases.evidence import FOLDER
from engine.exports.run_source import settings_of
from engine.facts import run_facts
from engine.files.atomic_file import sync_tree, write_atomically
from engine.files.regular_file import read_regular
from engine.messages import events
from engine.messages.events import AttemptStarted, Event, Metrics, Notice
from engine.processes.machine import this_machine
from engine.runs.run_notes import RunNotes, write_notes
from engine.runs.run_state import RunState
from engine.runs.store.run_store import RunStore
from engine.runs.store.store_reader import RunReader
from engine.spec.run_spec import RunSpec
from engine.spec.spec_file import FILE_NAME as SPEC
from engine.spec.spec_file import UnreadableSpec, encode_spec, read_spec
from engine.system import paths

_RECIPE = "imported"
_LARGEST_STEP = 2**53
_LATEST = 1e11
_MOST_SERIES = 10_000
_LOGS = ("logs", run_facts.FOLDER)

_OF_ANOTHER_MACHINE = (AttemptStarted, events.WorkerStarted, events.CheckpointSaved)
"""Events that name processes and checkpoints which are not here."""

_ENDS = (RunState.STOPPED, RunState.FINISHED, RunState.FAILED)

_HELD = msgspec.msgpack.Decoder(list[tuple[float, Event]])
_POINTS = msgspec.msgpack.Decoder(list[Points])


def stage(file: Path, source: str) -> tuple[Path, int]:
    """Write the run of a failure file into a new staged folder; return that, and its points.

    `source`: the path that the run says it came from. Raises UnfitCase, OSError, sqlite3.Error:
    then nothing is left.
    """
    manifest, files = read_case(file)
    spec = _spec(file.name, files)
    folder = paths.stage_run_folder()
    try:
        opened = RunSpec(
            recipe=_RECIPE,
            strategy="imported/case",
            devices=(),
            name=manifest.title,
            settings=settings_of(spec),
            imported_from=source,
        )
        environment = {"python": platform.python_version(), "platform": platform.platform()}
        write_atomically(folder / SPEC, encode_spec(opened, environment))
        about = f"Run {manifest.run} of Traindeck {manifest.traindeck}, from its failure file."
        write_notes(folder, RunNotes(note="\n".join([about, *manifest.left_out])[:10_000]))
        _write_files(folder, files)
        (folder / NAME).write_bytes(read_regular(file, LARGEST_READ, follow_links=True))
        points = _write_store(file.name, folder, manifest, files, source)
        _check_readable(file.name, folder)
        sync_tree(folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder, points


def _spec(name: str, files: Mapping[str, bytes]) -> RunSpec:
    try:
        return msgspec.json.decode(files["run/spec.json"], type=RunSpec)
    except (KeyError, RecursionError, msgspec.MsgspecError) as error:
        raise UnfitCase(f"{name} holds no settings that this version reads: {error}.") from error


def _write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write what is shown of a run: its code, logs and facts, and what does the step again."""
    for place, body in files.items():
        top, _, rest = place.partition("/")
        kind = rest.partition("/")[0]
        is_shown = kind in _LOGS and rest.count("/") == 1
        if top == "run" and (rest == "recipe.py" or is_shown or _is_module(rest)):
            _write(folder / rest, body)
        elif top == "repro":
            _write(folder / FOLDER / rest, body)
        elif place == "failure.txt":
            _write(folder / FOLDER / place, body)


def _is_module(place: str) -> bool:
    return place.startswith("modules/") and place.endswith(".py")


def _write(path: Path, body: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(body)


def _write_store(
    name: str, folder: Path, manifest: Manifest, files: Mapping[str, bytes], source: str
) -> int:
    """Write events and points; return the number of points."""
    try:
        held = _HELD.decode(files["run/events.msgpack"])
        series = _POINTS.decode(files["run/points.msgpack"])
        found = [_metrics(each) for each in series]
    except (KeyError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise UnfitCase(f"{name} is damaged: its events or points: {str(error)[:200]}.") from error
    times = [time for time, _ in held]
    if not times or not all(0 < time < _LATEST for time in times) or len(series) > _MOST_SERIES:
        raise UnfitCase(f"{name} is damaged: its events have no time.")
    if any(e.state not in _ENDS for _, e in held if isinstance(e, events.RunEnded)):
        raise UnfitCase(f"{name} is damaged: its run has not ended.")
    if not isinstance(held[-1][1], events.RunEnded):
        held = [each for each in held if not isinstance(each[1], events.RunEnded)]
        held.append((max(times), events.RunEnded(_state(manifest), manifest.reason)))
    store = RunStore(folder)
    try:
        store.append(AttemptStarted(1, 0, 0.0, this_machine()), times[0])
        store.append(Notice(f"Opened from {source}."), times[0])
        for metrics in found:
            store.append(metrics, metrics.end)
        for time, event in held:
            if not isinstance(event, _OF_ANOTHER_MACHINE):
                store.append(event, time)
    finally:
        store.close()
    return sum(len(each.points[0].steps) for each in found)


def _check_readable(name: str, folder: Path) -> None:
    """Raise UnfitCase for a run that could not be shown, as its texts are too long."""
    try:
        read_spec(folder)
        with RunReader(folder) as reader:
            reader.status()
    except (UnreadableSpec, ValueError, sqlite3.DatabaseError) as error:
        reason = str(error)[:200].rstrip(".")
        raise UnfitCase(f"{name} holds what no run has: {reason}.") from error


def _state(manifest: Manifest) -> str:
    return manifest.state if manifest.state in _ENDS else RunState.FAILED


def _metrics(points: Points) -> Metrics:
    """Return the points of a series. Raises ValueError."""
    steps = np.frombuffer(points.steps, "<i8")
    times = np.frombuffer(points.times, "<f8")
    values = np.frombuffer(points.values, "<f8")
    if not 0 < len(steps) == len(times) == len(values):
        raise ValueError(f"the series {points.series[:100]!r} has no equal columns")
    is_ordered = steps[0] >= 0 and steps[-1] < _LARGEST_STEP and (steps[1:] >= steps[:-1]).all()
    if not (is_ordered and ((times > 0) & (times < _LATEST)).all()):
        raise ValueError(f"the series {points.series[:100]!r} is in no order")
    of_series = events.Points(points.series, steps.tolist(), values.tolist(), times.tolist())
    return Metrics(float(times.min()), float(times.max()), [of_series])
