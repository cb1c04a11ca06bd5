"""Turns a recording into a run in the data folder, either over or still active."""

from __future__ import annotations

import math
import os
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from engine.diagnosis.device_metrics import DeviceRecorder
from engine.messages.events import (
    AttemptStarted,
    Event,
    Failure,
    Metrics,
    Points,
    Progress,
    RunEnded,
    TrainingStarted,
    WorkerReady,
    WorkerStarted,
)
from engine.processes.machine import this_machine
from engine.processes.process import start_time
from engine.runs.run_state import RunState
from engine.runs.store.run_store import RunStore
from engine.spec import catalog
from engine.spec.spec_file import write_spec
from engine.system import paths
from engine.telemetry.snapshot import Snapshot
from tools.screenshots import fake_machine
from tools.screenshots.recording import RECIPE, Moment, Recording

FIRST_PID = 7001
"""Pid of rank 0."""

_HELD_BACK = 5
"""Number of events of an active run that are stored once the window is open."""

_BEFORE_THE_END = 0.01
"""Seconds between the last line of a log and the end of the run."""


class ReplayedRun(NamedTuple):
    """A run in the data folder."""

    id: str
    folder: Path
    since: float
    """Start of its workers (seconds since the epoch)."""

    pids: tuple[int, ...]
    """Pids of its workers, by rank."""

    rest: tuple[tuple[float, Event], ...] = ()
    """The events that `append_rest` stores, with their times; none for a run that is over."""

    def append_rest(self) -> None:
        """Store the remaining events, while a window shows the run."""
        store = RunStore(self.folder)
        for when, event in self.rest:
            store.append(event, when)
        store.close()

    def append_step(self) -> None:
        """Store the progress of one more step of a run that trains; without any, the window would
        report a hang."""
        store = RunStore(self.folder)
        status = store.status
        if status.state is not RunState.RUNNING or "hang" in status.troubles:
            store.close()
            return
        left = max(0.0, status.seconds_left - status.step_seconds)
        speed, seconds = status.samples_per_second, status.step_seconds
        store.append(Progress(status.epoch, status.step + 1, speed, seconds, left), time.time())
        store.close()


class BusyMachine(Protocol):
    """A made-up machine on which our workers compute."""

    def __call__(self, time: float, since: float, pids: Sequence[int]) -> Snapshot:
        """Return the snapshot at `time`; the workers `pids` began at `since`."""


def replay(
    recording: Recording,
    *,
    busy: BusyMachine = fake_machine.workstation,
    progress: float = 1.0,
    ago: float = 0.0,
) -> ReplayedRun:
    """Put the run into the data folder, as it was at `progress` (0 to 1), `ago` seconds ago.

    With a progress below 1 the run is active, and this process is its supervisor. It uses the GPUs
    of the machine `busy`. Raises OSError.
    """
    moments = [each for each in recording.moments if each.after <= _length(recording) * progress]
    begin = time.time() - ago - moments[-1].after
    count = len(recording.spec.devices)
    gpus = tuple(map(fake_machine.uuid, range(count)))
    pids = tuple(range(FIRST_PID, FIRST_PID + count))
    spec = msgspec.structs.replace(recording.spec, recipe=str(RECIPE), devices=gpus)
    folder = paths.create_run_folder()
    write_spec(folder, spec, catalog.recipe(spec.recipe))
    events = [(begin + each.after, _localised(each.event, begin, gpus)) for each in moments]
    events += _devices(moments, busy, begin, gpus, pids)
    events.sort(key=lambda each: each[0])
    ends = isinstance(events[-1][1], RunEnded)
    if any(isinstance(each.event, TrainingStarted) for each in moments):
        events.insert(len(events) - ends, (events[-1][0], _progress(moments, spec.batch_size)))
    rest: list[tuple[float, Event]] = []
    if progress < 1:
        rest = [each for each in events if not isinstance(each[1], Metrics)][-_HELD_BACK:]
    store = RunStore(folder)
    for each in events:
        if each not in rest:
            store.append(each[1], each[0])
    store.close()
    for rank, lines in recording.logs.items():
        printed = lines[: math.ceil(len(lines) * progress)]
        text = "".join(f"{line}\n" for line in printed)
        log = folder / "logs" / f"rank{rank}.log"
        log.write_text(text, encoding="utf-8")
        if ends:
            os.utime(log, (events[-1][0] - _BEFORE_THE_END,) * 2)
    return ReplayedRun(folder.name, folder, begin, pids, tuple(rest))


def _length(recording: Recording) -> float:
    return recording.moments[-1].after


def _localised(event: Event, begin: float, gpus: Sequence[str]) -> Event:
    """Return `event` with the pids, devices and times of the replayed run."""
    change = msgspec.structs.replace
    match event:
        case AttemptStarted():
            pid = os.getpid()
            created = start_time(pid)
            return change(
                event, supervisor_pid=pid, supervisor_created=created, machine=this_machine()
            )
        case WorkerStarted(rank):
            return change(event, pid=FIRST_PID + rank, devices=(gpus[rank],))
        case WorkerReady(rank):
            return change(event, devices=(gpus[rank],))
        case RunEnded(failure=Failure(rank=rank, device=old) as failure) if rank >= 0:
            new = gpus[rank]
            named = change(failure, device=new, message=failure.message.replace(old, new))
            return change(event, failure=named, reason=event.reason.replace(old, new))
        case Metrics():
            points = [made for each in event.points for made in _worker_memory(each)]
            return Metrics(begin + event.begin, begin + event.end, points)
        case _:
            return event


def _worker_memory(points: Points) -> Iterator[Points]:
    """Yield the points of a series; replace resident memory by that of a worker on a GPU."""
    room, _, name = points.series.rpartition("/")
    if name == "memory_resident":
        for each, size in (
            ("memory_allocated", fake_machine.TENSORS),
            ("memory_reserved", fake_machine.POOL),
        ):
            yield Points(f"{room}/{each}", points.steps, [float(size)] * len(points.steps))
    elif not room.startswith("device/"):
        yield points


def _devices(
    moments: Sequence[Moment],
    busy: BusyMachine,
    begin: float,
    gpus: Sequence[str],
    pids: Sequence[int],
) -> Iterator[tuple[float, Event]]:
    """Yield the metrics of the GPUs for every second."""
    places = [
        (each.after, each.event.points[0].steps[-1])
        for each in moments
        if isinstance(each.event, Metrics) and each.event.points[0].series == "train/loss"
    ]
    recorder = DeviceRecorder(gpus)
    for second in range(math.ceil(moments[-1].after)):
        place = bisect_right(places, (second, math.inf)) - 1
        step = places[place][1] if place >= 0 else 0
        snapshot = busy(begin + second, begin, pids)
        yield begin + second, recorder.metrics(snapshot, step)


def _progress(moments: Sequence[Moment], batch_size: int) -> Progress:
    """Return the progress of the run after the last of `moments`."""
    [started] = [each.event for each in moments if isinstance(each.event, TrainingStarted)]
    newest = {
        points.series: points
        for each in moments
        if isinstance(each.event, Metrics)
        for points in each.event.points
    }
    step = newest["train/loss"].steps[-1]
    speed = newest["train/samples_per_second"].values[-1]
    left = started.steps_per_epoch * started.epochs - step
    return Progress(
        epoch=min(step // started.steps_per_epoch + 1, started.epochs),
        step=step,
        samples_per_second=speed,
        step_seconds=batch_size / speed,
        seconds_left=left * batch_size / speed,
    )
