"""Replays steps of a run: short workers train them again, and their values are compared."""

from __future__ import annotations

import math
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from engine import client
from engine.client import CannotStart
from engine.facts.run_facts import DataFacts, read_data
from engine.messages.events import Event, WorkerReady
from engine.planning.device_claim import claimed_devices
from engine.planning.own_data_folder import own_data_folder
from engine.planning.replays.data_change import data_change, data_sameness
from engine.planning.replays.inspection import StepContext, read_inspection
from engine.planning.results import Difference, Doing, Inspection, News, RecordedStep, Replay
from engine.planning.short_run import WITHOUT_TRACES, ShortRun, short_run
from engine.runs.checkpoints import checkpoint_files
from engine.runs.checkpoints.step_origin import NoOrigin, StepOrigin, attempts_of, step_origin
from engine.runs.run_info import RunInfo
from engine.runs.run_state import STEP_SECONDS, THROUGHPUT
from engine.runs.store.store_reader import RunReader, StoredEvent
from engine.runs.store.stored_points import StoredPoints
from engine.spec import catalog, presets, recipe_copy
from engine.spec.device_names import all_on_cpu, machine_of
from engine.spec.presets import UnreadablePreset
from engine.spec.run_spec import RunSpec
from engine.spec.spec_file import spec_of_attempt
from engine.system import units
from engine.system.program import call
from engine.training.probes.step_inspection import INSPECT_STEP
from engine.training.run_length import KEEP_REPLAYED, REPLAY_TO

_TRAIN = "train/"
TIMES = (THROUGHPUT, STEP_SECONDS)
"""The series of times, which no two runs share."""

_SUSPECTS = ("train/loss", "train/gradient_norm")
_BEFORE = 40
"""Steps before one, from whose values its own is judged."""

_NEAR = 9
"""The last of them, beside whose median it is."""

_FEWEST = 3
"""Steps of which none is an outlier: nothing says what is usual."""

_NOISE = 0.01
"""The relative distance that no value stands out by."""

_RISE = 10.0
"""The score of an outlier that belongs to the rise before a value that is not finite."""

_MOST_DETAILS = 3
"""Lines beside the message of a failed replay."""

_AROUND = 20
"""Recorded steps before the replayed one, and after it, that are shown."""

Floats = NDArray[np.float64]


class CannotReplay(Exception):
    """The step cannot be trained again; the text is a sentence that says why."""


def replay(
    run: str,
    step: int,
    tell: Callable[[News], None] = lambda news: None,
    is_cancelled: Callable[[], bool] = lambda: False,
    *,
    keeps_checkpoint: bool = False,
) -> Replay:
    """Train `step` of a run again, with all steps since the nearest earlier checkpoint.

    0: the step that looks wrong. The run does not change, and may train meanwhile; but with
    `keeps_checkpoint`, a run that is over gets a checkpoint of the step. Raises NoSuchRun,
    CannotReplay, DevicesInUse, Cancelled, sqlite3.Error.
    """
    begun = time.monotonic()
    info = client.get_run(run)
    _check(info)
    if keeps_checkpoint and not info.state.is_over:
        text = f"Run {run} is {info.state}: it gets a checkpoint of a past step once it is over."
        raise CannotReplay(text)
    with RunReader(info.folder) as reader:
        events = _events(reader)
        wanted = step or suspicious_step(reader)
        last = reader.step_at("train/loss", reader.counts().get("train/loss", 0) - 1)
        if not 0 < wanted <= last:
            known = f"it has recorded steps 1 to {last:,}" if last > 0 else "it has recorded none"
            raise CannotReplay(f"Run {run} has no step {wanted:,}: {known}.")
        origin = _origin(info, wanted, events)
        recorded = _values(reader, origin.step, wanted)
        losses, norms, rates = (
            reader.window(series, wanted - _AROUND, wanted + _AROUND)
            for series in (*_SUSPECTS, "train/learning_rate")
        )
    spec = _replayed_spec(info.folder, origin.attempt)
    steps = wanted - origin.step

    def progress(now: int) -> None:
        done = min(steps, max(0, now - origin.step))
        tell(Doing(f"replaying {done:,} of {steps:,} steps", done, steps))

    progress(origin.step)
    start = partial(_start, info.folder, origin)
    asked = {REPLAY_TO: str(wanted), INSPECT_STEP: str(wanted)}
    asked |= {KEEP_REPLAYED: "1"} if keeps_checkpoint else {}
    kept, is_kept = "", False
    with _claimed(info), own_data_folder("replay", **asked):
        done = short_run(
            spec, seconds=math.inf, is_cancelled=is_cancelled, progress=progress, start=start
        )
        progress(wanted)
        folder = _folder_of(done)
        replayed, versions_now, data_now = _replayed(folder, origin.step, wanted)
        _check_whole(recorded, replayed, folder)
        context = StepContext(_at(losses, wanted - 1), _at(rates, wanted), _at(rates, wanted - 1))
        inspection = read_inspection(folder, context)
        differs, difference = _compare(recorded, replayed, origin.step, wanted)
        is_kept = keeps_checkpoint and difference is None
        if is_kept:
            _copy_checkpoint(checkpoint_files.final_folder(folder, wanted), info.folder, wanted)
    if is_kept:  # in the data folder of the run again
        kept = _keep(info, wanted)
    return Replay(
        run=run,
        step=wanted,
        begin=origin.step,
        checkpoint=origin.checkpoint.name if origin.checkpoint else "",
        equal=int((~differs).sum()),
        difference=difference,
        reasons=_reasons(
            difference,
            origin,
            spec,
            (_versions(events, origin.attempt), versions_now),
            (read_data(info.folder, origin.attempt), data_now),
        ),
        around=_around(losses, norms, origin.step, differs),
        kept=kept,
        inspection=_with_doubt(inspection) if differs[-1] else inspection,
        seconds=time.monotonic() - begun,
    )


def _check(info: RunInfo) -> None:
    """Raise CannotReplay if no step of the run can be trained again."""
    if info.spec.is_imported:
        raise CannotReplay(f"Run {info.id} was imported and never trained here: it has no replay.")
    if info.spec.is_script:
        raise CannotReplay(
            f"Run {info.id} is of a script, which would write its files once more: a recipe with "
            "the model, the data and the loss of the script has replays, and "
            f"`{call('new-recipe NAME.py')}` writes one to fill in."
        )
    if elsewhere := next(filter(None, map(machine_of, info.spec.devices)), ""):
        raise CannotReplay(
            f"Run {info.id} trains on {elsewhere} too: runs over several machines have no replay."
        )


def _origin(info: RunInfo, step: int, events: Iterable[Event]) -> StepOrigin:
    def trains_alike(one: int, other: int) -> bool:
        before, after = (_replayed_spec(info.folder, each) for each in (one, other))
        return before == after and _code(info.folder, one) == _code(info.folder, other)

    saved = checkpoint_files.newest_intact(info.folder, step)
    try:
        return step_origin(step, attempts_of(events), saved, trains_alike)
    except NoOrigin as error:
        raise CannotReplay(f"Step {step:,} of run {info.id} has no replay: {error}") from error


def _code(folder: Path, attempt: int) -> Any:
    has_copy = recipe_copy.has_copy(folder)
    return recipe_copy.code_of_attempt(folder, attempt) if has_copy else None


def _replayed_spec(folder: Path, attempt: int) -> RunSpec:
    """Return the settings of an attempt as far as they decide what its steps compute."""
    try:
        read = presets.read(spec_of_attempt(folder, attempt))
    except UnreadablePreset as error:
        raise CannotReplay(f"The settings of attempt {attempt} cannot be read: {error}") from error
    spec = replace(read, **WITHOUT_TRACES)
    on_nan = "continue" if spec.on_nan == "stop" else spec.on_nan
    kept = RunSpec(recipe="", strategy="", devices=())
    return replace(
        spec,
        on_nan=on_nan,
        keep_checkpoints=kept.keep_checkpoints,
        keep_awake=kept.keep_awake,
        time_limit_minutes=0.0,
        energy_limit_wh=0.0,
        patience=kept.patience,
        min_delta=kept.min_delta,
        name="",
    )


def _start(folder: Path, origin: StepOrigin, spec: RunSpec) -> str:
    try:
        return client.start_replay(folder, origin.checkpoint, origin.attempt, spec)
    except (OSError, sqlite3.Error) as error:
        raise CannotReplay(f"The run cannot be copied to be replayed: {error}.") from error
    except CannotStart as error:
        raise CannotReplay(f"The step cannot be trained again: {error}") from error


def _copy_checkpoint(saved: Path, folder: Path, step: int) -> None:
    """Copy the checkpoint that a replay has saved to its run, as one that is not complete yet."""
    try:
        shutil.copytree(saved, checkpoint_files.begin(folder, step), dirs_exist_ok=True)
    except OSError as error:
        shutil.rmtree(checkpoint_files.temporary_folder(folder, step), ignore_errors=True)
        raise CannotReplay(f"The checkpoint of the step cannot be kept: {error}.") from error


def _keep(info: RunInfo, step: int) -> str:
    """Complete the checkpoint of a step that was copied to the run; return its name."""
    try:
        return client.add_checkpoint(info, step).name
    except CannotStart as error:
        raise CannotReplay(f"The checkpoint of the step cannot be kept: {error}") from error


def _claimed(info: RunInfo) -> AbstractContextManager[None]:
    """Hold the GPUs that a run has used; while it trains, it shares them with its replay."""
    is_held = not info.state.is_over or all_on_cpu(info.spec.devices)
    return nullcontext() if is_held else claimed_devices(info.spec.devices)


def _folder_of(run: ShortRun) -> Path:
    """Return the folder of the replay. Raises CannotReplay if it did not do its steps."""
    if run.problem:
        where = f" ({run.where})" if run.where else ""
        more = " ".join(run.details.split("\n")[:_MOST_DETAILS])  # such as the sample and its file
        text = f"The replay has failed{where}: {run.problem}"
        raise CannotReplay(f"{text.rstrip('.')}. {more}" if more else text)
    [info] = client.runs()
    return info.folder


def _replayed(
    folder: Path, begin: int, step: int
) -> tuple[dict[str, StoredPoints], dict[str, str], DataFacts | None]:
    """Return what the replay has recorded, the versions of its packages, and its data."""
    with RunReader(folder) as reader:
        events = _events(reader)
        attempt = attempts_of(events)[-1].attempt
        values = _values(reader, begin, step)
        return values, _versions(events, attempt), read_data(folder, attempt)


def _check_whole(
    recorded: Mapping[str, StoredPoints], replayed: Mapping[str, StoredPoints], folder: Path
) -> None:
    """Raise CannotReplay if the replay in `folder` has not recorded its last step."""
    then, now = (each.get("train/loss") for each in (recorded, replayed))
    last = int(now.step[-1]) if now is not None else 0
    if then is not None and last < int(then.step[-1]):
        free = units.byte_size(shutil.disk_usage(folder).free)
        raise CannotReplay(
            f"The replay has trained its steps, and recorded none after step {last:,}: {folder} "
            f"has {free} free. Make room there, or let TMPDIR name another disk."
        )


def _events(reader: RunReader) -> list[Event]:
    found: list[StoredEvent] = []
    while more := reader.events_after(found[-1].seq if found else 0):
        found += more
    return [stored.event for stored in found]


def _values(reader: RunReader, begin: int, step: int) -> dict[str, StoredPoints]:
    """Return what is recorded of each step after `begin`, up to `step`, by series."""
    found = {}
    for series in reader.counts():
        if series.startswith(_TRAIN) and series not in TIMES:
            points = reader.window(series, begin + 1, step, step - begin + 2)
            inside = (points.step > begin) & (points.step <= step)
            if inside.any():
                found[series] = StoredPoints(
                    points.step[inside], points.time[inside], points.value[inside], 0
                )
    return found


def _versions(events: Iterable[Event], attempt: int) -> dict[str, str]:
    """Return the versions of packages with which an attempt has trained."""
    found, number = dict[str, str](), 0
    for event in events:
        number = getattr(event, "attempt", number)
        if isinstance(event, WorkerReady) and number == attempt:
            found |= event.versions
    return found


def _compare(
    recorded: Mapping[str, StoredPoints], replayed: Mapping[str, StoredPoints], begin: int, end: int
) -> tuple[NDArray[np.bool_], Difference | None]:
    """Return which steps after `begin` are not equal bit for bit, and the first difference."""
    differs = np.zeros(end - begin, dtype=bool)
    first: Difference | None = None
    for series, points in recorded.items():
        ours = _by_step(points, begin, end)
        again = _by_step(replayed[series], begin, end) if series in replayed else ours * math.nan
        same = ours.view(np.int64) == again.view(np.int64)
        unlike = ~(same | (np.isnan(ours) & np.isnan(again)))
        differs |= unlike
        if unlike.any():
            at = int(unlike.argmax())
            if first is None or begin + 1 + at < first.step:
                name = series.removeprefix(_TRAIN)
                first = Difference(
                    begin + 1 + at, name, repr(float(ours[at])), repr(float(again[at]))
                )
    return differs, first


def _at(points: StoredPoints, step: int) -> float | None:
    """Return the recorded value of a step; None: there is none, or it is not finite."""
    found = points.value[points.step == step]
    return float(found[0]) if len(found) and np.isfinite(found[0]) else None


def _with_doubt(inspection: Inspection | None) -> Inspection | None:
    """Return what was seen of a step that is not the recorded one."""
    if inspection is None:
        return None
    text = "The replayed step is not the one that was recorded. Of the replayed one:"
    return replace(inspection, answer=f"{text} {inspection.answer}")


def _around(
    losses: StoredPoints, norms: StoredPoints, begin: int, differs: NDArray[np.bool_]
) -> tuple[RecordedStep, ...]:
    """Return the recorded steps near the replayed one; `differs`: of those after `begin`."""
    norm_of = dict(zip(norms.step.tolist(), norms.value.tolist(), strict=True))
    found = []
    for step, loss in zip(losses.step.tolist(), losses.value.tolist(), strict=True):
        at = int(step) - begin - 1
        is_equal = not differs[at] if 0 <= at < len(differs) else None
        found.append(RecordedStep(int(step), loss, norm_of.get(step), is_equal))
    return tuple(found)


def _by_step(points: StoredPoints, begin: int, end: int) -> Floats:
    """Return the value of each step after `begin`; NaN where there is none."""
    values = np.full(end - begin, math.nan)
    values[points.step.astype(np.int64) - begin - 1] = points.value
    return values


def _reasons(
    difference: Difference | None,
    origin: StepOrigin,
    spec: RunSpec,
    versions: tuple[Mapping[str, str], Mapping[str, str]],
    data: tuple[DataFacts | None, DataFacts | None],
) -> tuple[str, ...]:
    """Return why the replay may differ, in sentences; `versions` and `data`: then and now."""
    changed = data_change(*data)
    if difference is None:
        return (changed,) if changed else ()
    then, now = versions
    found = [changed] if changed else []
    found += [
        f"It was trained with {name} {then[name]}, and replayed with {now[name]}."
        for name in sorted(then.keys() & now.keys())
        if then[name] != now[name]
    ]
    if not catalog.strategy(spec.strategy).is_synchronous:
        found.append(
            f"The workers of {spec.strategy} do not wait for each other: no two runs agree."
        )
    if not all_on_cpu(spec.devices) and not spec.deterministic:
        found.append("On GPUs, only a run with Deterministic computes the same bits again.")
    if changed:
        return tuple(found)
    if difference.step == origin.step + 1:
        found.append("The first step differs already: the data may have changed since.")
    elif not found:
        found.append("The data, or what else the recipe reads, may have changed since.")
    return (*found, same) if (same := data_sameness(*data)) else tuple(found)


def suspicious_step(reader: RunReader) -> int:
    """Return the first step with a value that is not finite, or else the largest outlier.

    An outlier is judged by the median of the steps before it, and by their distance from that; one
    of the first steps, by the largest value before it. Raises CannotReplay if the run is too short
    to have one.
    """
    best, at, broken = -math.inf, 0, list[int]()
    for series in _SUSPECTS:
        before = np.empty(0)
        for points in reader.batches(series):
            early = _early_rises(points.value[:_BEFORE]) if not len(before) else np.empty(0)
            if len(early) and (score := float(early.max())) > max(best, _RISE):
                best, at = score, int(points.step[int(early.argmax())])
            odd = ~np.isfinite(points.value)
            if odd.any():
                broken.append(_begin_of_rise(points, int(odd.argmax())))
                break
            values = np.concatenate([before, points.value])
            steps = points.step[len(points.step) - max(0, len(values) - _BEFORE) :]
            before = values[-_BEFORE:]
            if not len(steps):
                continue
            scores = _outliers(values)
            if (score := float(scores.max())) > best:
                best, at = score, int(steps[int(scores.argmax())])
    if broken:
        return min(broken)
    if not at:
        raise CannotReplay("The run is too short to say which step looks wrong: name a step.")
    return at


def _begin_of_rise(points: StoredPoints, broken: int) -> int:
    """Return the first step of the rise that ends in the point number `broken`, not finite."""
    first = broken
    if broken > _BEFORE:
        scores = _outliers(points.value[:broken])
        while first - 1 >= _BEFORE and scores[first - 1 - _BEFORE] > _RISE:
            first -= 1
    return int(points.step[first])


def _early_rises(values: Floats) -> Floats:
    """Return how far each of the first values of a run lies above all before it.

    The distance is measured by the usual one between neighbours. Values that are not positive, or
    not finite, have no logarithm: then there are no scores.
    """
    if len(values) < _FEWEST or not (np.isfinite(values) & (values > 0)).all():
        return np.empty(0)
    own = np.log(values)
    above = own - np.maximum.accumulate(np.concatenate([own[:1], own[:-1]]))
    scores: Floats = above / (_NOISE + 1.4826 * np.median(np.abs(np.diff(own))))
    scores[:_FEWEST] = 0.0
    return scores


def _outliers(values: Floats) -> Floats:
    """Return how far each value after the first `_BEFORE` lies above those before it.

    A value is beside the median of its neighbours before it, as a curve falls. That distance is
    measured by the usual one. Positive values count by their logarithm: noise falls with a loss.
    """
    is_positive = bool((values > 0).all())
    own = np.log(values) if is_positive else values
    floor = _NOISE if is_positive else _NOISE * (1e-12 + float(np.median(np.abs(values))))
    near = np.median(np.lib.stride_tricks.sliding_window_view(own[:-1], _NEAR), axis=1)
    distance = own[_NEAR:] - near
    usual = np.lib.stride_tricks.sliding_window_view(np.abs(distance)[:-1], _BEFORE - _NEAR)
    scores: Floats = distance[_BEFORE - _NEAR :] / (floor + 1.4826 * np.median(usual, axis=1))
    return scores
