"""One short run by real workers, in the data folder of the moment, and the figures that it gave."""

from __future__ import annotations

import itertools
import math
import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import msgspec

from engine import client
from engine.diagnosis.device_metrics import PROCESS_MEMORY
from engine.diagnosis.stack_dumps import WorkerLocation
from engine.messages.commands import Stop
from engine.messages.events import CheckpointSaved, EpochEnded, Failure, Notice, TrainingStarted
from engine.planning.whereabouts import whereabouts
from engine.processes.scarce_memory import MemoryWatch
from engine.runs.run_info import RunInfo, failure_of
from engine.runs.run_state import STEP_SECONDS, THROUGHPUT, TRAINING_LOSS, RunState, RunStatus
from engine.runs.store.store_reader import RunReader, StoredEvent
from engine.runs.store.stored_points import StoredPoints
from engine.spec.run_spec import RunSpec
from engine.system.cancelled import Cancelled
from engine.training.pace import WARM_UP_CHUNKS
from engine.training.probes import memory_record
from engine.training.probes.measuring import MEASURE, PREFIX
from engine.training.probes.memory_record import RankRecord

LOOK_SECONDS = 0.05
TELL_SECONDS = 0.5
END_SECONDS = 20.0
"""Time for the workers to end once they were told to; after it they are left to their deadlines."""

MOST_SECONDS = 120.0
"""Time for a short run, with the import of its framework and the first use of a card."""

MOST_PARTS = 5
"""Parts of the measured steps. Their median ignores one disturbance of the machine, and still has
all that recurs, such as each fourth step that waits for data; the median of the steps has not."""

WARM_UP_SHARE = 0.1
"""The share of the steps that counts as warm-up, if it is more than the chunks that do."""

SHARES = ("compute", "communication", "data")

_OUT_OF_MEMORY = (
    "out of memory",  # our own sentence, and most of the drivers'
    "OutOfMemoryError",
    "can't allocate memory",
    "annot allocate memory",
    "Unable to allocate",  # NumPy
    "MemoryError",
    "std::bad_alloc",
    "OOM when allocating",
    "ResourceExhaustedError",
    "RESOURCE_EXHAUSTED",
    "_STATUS_ALLOC_FAILED",
    "failed to allocate memory",
    "can't start new thread",  # its stack has no room
)
"""In the message of a failure of PyTorch, TensorFlow, NumPy, or the libraries below them."""

_NOT_SCARCE = "This machine had memory left."
"""About a worker that was killed; follows the sentence with all causes."""

_CRASHES = ("SIGSEGV", "SIGABRT", "SIGBUS")

WITHOUT_TRACES = {
    "max_restarts": 0,
    "on_disk_full": "stop",
    "on_oom": "stop",
    "checkpoint_minutes": 0.0,
    "checkpoint_steps": 0,
    "checkpoint_epochs": 0,
    "checkpoint_best": "",
    "early_stopping": "",
    "tensorboard": False,
    "queue": "never",
    "stop_seconds": 5.0,
    "orphan_seconds": 0.0,
}
"""The fields of a spec that a short run has in any case: it keeps nothing and waits for no one."""


class ShortRun(msgspec.Struct, frozen=True, kw_only=True):
    """What a short run has shown. A figure that is not known is 0 or empty."""

    spec: RunSpec
    steps: int = 0
    """Optimizer steps that were done."""

    losses: tuple[float, ...] = ()
    """The training loss of each step."""

    samples_per_second: float = 0.0
    """Of all replicas together, without the first steps, which compile and import: the median of
    `rates`. If it did no more than those, of those."""

    rates: tuple[float, ...] = ()
    """Samples per second in up to MOST_PARTS equal parts of the steps that were measured, without
    the time of validations."""

    measured_steps: int = 0
    """The steps after the warm-up whose time is known."""

    samples_per_step: float = 0.0
    """The mean, of all replicas together: a loader of the recipe may have its own batches."""

    step_seconds: float = 0.0
    """The mean of the steps that were measured."""

    shares: dict[str, float] = {}
    """Of the step time, by `SHARES`: a mean over the ranks, from 0 to 1. Empty: not told."""

    first_step_seconds: float = 0.0
    """From the start of the run to the end of its first step."""

    seconds: float = 0.0
    """From the start of the run to its end."""

    memory: dict[str, float] = {}
    """The most bytes that the workers held, by device of the spec. All CPU devices have one
    memory, which `cpu` stands for."""

    ranks: dict[int, RankRecord] = {}
    """What each worker told about its memory, by rank."""

    joules: float = 0.0
    """Energy of the GPUs for one sample; 0: the driver does not tell it, or there are none."""

    parameters: int = 0
    steps_per_epoch: int = 0
    replicas: int = 0
    notices: tuple[str, ...] = ()
    problem: str = ""
    """Why it did not do its steps, in a sentence; empty: it did."""

    where: str = ""
    """File and line of the problem, if they are known."""

    details: str = ""
    """What the failure says besides."""

    metrics: tuple[str, ...] = ()
    """The series that it gave, beside the training loss."""

    is_late: bool = False
    """Whether the problem is that the time was over before its first step."""

    is_out_of_memory: bool = False
    was_killed: bool = False
    """Whether a worker was killed from outside, and not for memory: it says nothing of the spec."""

    rank_shares: dict[int, dict[str, float]] = {}
    """The shares of each rank."""

    measured: dict[str, float] = {}
    """What the ranks measured after their steps, see `engine.training.probes.measuring`."""

    checkpoint_bytes: int = 0
    """Of the last checkpoint; 0: none was saved."""

    steps_in_all: int = 0
    """That a run with these settings does; 0: not known."""

    @property
    def ok(self) -> bool:
        """Whether it did its steps."""
        return not self.problem


def short_run(
    spec: RunSpec,
    *,
    steps: int = 0,
    seconds: float = MOST_SECONDS,
    training_seconds: float = math.inf,
    measuring_seconds: float = 0.0,
    is_cancelled: Callable[[], bool] = lambda: False,
    progress: Callable[[int], None] = lambda step: None,
    start: Callable[[RunSpec], str] = lambda spec: client.start(spec),
) -> ShortRun:
    """Train `steps` optimizer steps with `spec` and return what was measured.

    0 steps: as many as the spec has. A run that has trained for `training_seconds` ends its step;
    if there are `measuring_seconds`, its ranks then measure (`engine.training.probes.measuring`),
    and no other short run may be started meanwhile. The caller gives it a data folder
    (`own_data_folder`). A run that takes longer than `seconds` is ended, and what it showed
    until then counts if it did a step. `progress` gets the step now and then; `start` starts the
    run and returns its id. Raises Cancelled, after the workers were told to end.
    """
    asked = msgspec.structs.replace(spec, steps=steps or spec.steps, **WITHOUT_TRACES)
    if math.isfinite(training_seconds):  # it measures after it was asked to stop
        asked = msgspec.structs.replace(asked, stop_seconds=max(1.0, seconds))
    begun, clock = time.time(), time.monotonic()
    watch = MemoryWatch()
    try:
        with _asked_to_measure(measuring_seconds):
            run_id = start(asked)
    except client.CannotStart as error:
        return ShortRun(spec=spec, problem=str(error))
    late = _wait(run_id, clock + seconds, training_seconds, watch, is_cancelled, progress)
    run, was_scarce = client.get_run(run_id), watch.was_scarce
    return _figures(run, spec, begun, time.monotonic() - clock, late, was_scarce=was_scarce)


@contextmanager
def _asked_to_measure(seconds: float) -> Iterator[None]:
    """Let the ranks of what is started in this context measure for `seconds`, if that is not 0."""
    if not seconds:
        yield
        return
    os.environ[MEASURE] = f"{seconds:g}"
    try:
        yield
    finally:
        del os.environ[MEASURE]


class _Late(NamedTuple):
    """A run that was ended because it took too long."""

    seconds: float
    place: WorkerLocation | None
    """Where it was; None: not known."""


def _wait(
    run_id: str,
    deadline: float,
    training_seconds: float,
    watch: MemoryWatch,
    is_cancelled: Callable[[], bool],
    progress: Callable[[int], None],
) -> _Late | None:
    """Wait for the end of a run. Return what is known of one that was ended because it was late.

    Raises Cancelled, after the workers were told to end.
    """
    late, was_cancelled, has_trained = None, False, False
    begun, stepped, told = time.monotonic(), math.inf, -math.inf
    while not (run := client.get_run(run_id)).state.is_over:
        now = time.monotonic()
        watch.look()
        if now > deadline + END_SECONDS:
            break
        was_cancelled = was_cancelled or (late is None and is_cancelled())
        if late is None and not was_cancelled and now > deadline:
            late = _Late(now - begun, None if run.status.step else whereabouts(run))
        if (was_cancelled or late) and now > told + TELL_SECONDS:
            # The second one kills, which loses nothing: nobody waits for what it would save.
            deadline, told = min(deadline, now), now
            _send(run_id, Stop(now=True))
        if run.status.step:
            stepped = min(stepped, now)
            progress(run.status.step)
        if not has_trained and now > stepped + training_seconds:
            has_trained = True
            _send(run_id, Stop())
        time.sleep(LOOK_SECONDS)
    if was_cancelled:
        raise Cancelled
    return late


def _send(run_id: str, command: Stop) -> None:
    try:
        client.send(run_id, command)
    except client.CommandFailed:
        return  # it has ended by itself, or its supervisor got a signal


def _figures(
    run: RunInfo,
    spec: RunSpec,
    begun: float,
    seconds: float,
    late: _Late | None,
    *,
    was_scarce: bool,
) -> ShortRun:
    failure = failure_of(run)
    had_no_memory = failure is not None and is_out_of_memory(
        failure, was_scarce=was_scarce, is_limited=bool(os.environ.get(memory_record.ROOM))
    )
    was_killed = failure is not None and failure.signal == "SIGKILL" and not had_no_memory
    problem, where = "", ""
    if failure:
        problem, where = failure.message, failure.where
        if was_killed:
            problem = f"{problem} {_NOT_SCARCE}"
    elif late and run.status.step == 0:
        problem = f"It did no step within {late.seconds:.0f} s."
        if late.place:
            problem, where = f"{problem} {late.place.text}", late.place.where
        elif run.status.workers_ready < len(run.status.worker_pids):
            problem = f"{problem} Its ranks had not started yet."
    elif run.state not in (RunState.FINISHED, RunState.STOPPED):
        problem = run.reason or f"It is {run.state}."
    with RunReader(run.folder) as reader:
        stored_events = reader.events_after(0)
        events = [stored.event for stored in stored_events]
        losses = reader.history(TRAINING_LOSS)
        chunks = reader.history(THROUGHPUT)
        times = reader.history(STEP_SECONDS).value
        newest = reader.newest_values()
        turns = _turns(stored_events, reader)
        ranks = memory_record.read(run.folder, len(spec.slots))
        memory = _memory(reader, spec, ranks)
    started = next((event for event in events if isinstance(event, TrainingStarted)), None)
    saved = [event.bytes for event in events if isinstance(event, CheckpointSaved)]
    by_rank = _shares_by_rank(newest)
    seconds_of = _step_seconds(losses, _warm_step(chunks), turns)
    samples = _samples_per_step(run.status, spec)
    rates = _rates(seconds_of, samples)
    pace = run.status.samples_per_second
    energy = run.status.energy * 3600
    trained = len(losses.value) * spec.batch_size
    return ShortRun(
        spec=spec,
        steps=run.status.step,
        losses=tuple(map(float, losses.value)),
        samples_per_second=statistics.median(rates) if rates else pace,
        rates=rates,
        measured_steps=len(seconds_of),
        samples_per_step=samples,
        step_seconds=statistics.fmean(seconds_of or times[-1:].tolist() or [0.0]),
        shares=_mean_shares(by_rank),
        first_step_seconds=max(0.0, float(losses.time[0]) - begun) if len(losses.time) else 0.0,
        seconds=seconds,
        memory=memory,
        ranks=ranks,
        joules=energy / trained if energy and trained else 0.0,
        parameters=started.parameters if started else 0,
        steps_per_epoch=started.steps_per_epoch if started else 0,
        replicas=started.replicas if started else 0,
        notices=tuple(event.text for event in events if isinstance(event, Notice)),
        problem=problem,
        where=where,
        details=failure.details if failure else "",
        metrics=tuple(sorted(run.status.metrics.keys() - {TRAINING_LOSS})),
        is_out_of_memory=had_no_memory,
        was_killed=was_killed,
        is_late=bool(late and not run.status.step and not failure),
        rank_shares=by_rank,
        measured={
            name.removeprefix(PREFIX): value
            for name, value in newest.items()
            if name.startswith(PREFIX)
        },
        checkpoint_bytes=saved[-1] if saved else 0,
        steps_in_all=started.total_steps if started else 0,
    )


def is_out_of_memory(
    failure: Failure, *, was_scarce: bool = False, is_limited: bool = False
) -> bool:
    """Return whether a device, the machine or a limit had no memory left for a run.

    The kernel ends a process with SIGKILL and says no more, as a person may do: it counts if the
    memory of the machine `was_scarce` meanwhile. Native code that gets no memory may call abort.
    With `is_limited`, a crash counts too: TensorFlow uses what it did not get.
    """
    if failure.signal == "SIGKILL":
        return was_scarce
    if is_limited and failure.signal in _CRASHES:
        return True
    text = f"{failure.message}\n{failure.details}\n{failure.log_tail if failure.signal else ''}"
    return any(phrase in text for phrase in _OUT_OF_MEMORY)


def _warm_step(chunks: StoredPoints) -> int:
    """Return the last step of the warm-up."""
    if not len(chunks.step):
        return 0
    ends = [int(step) for step in chunks.step]
    return max(ends[min(WARM_UP_CHUNKS, len(ends)) - 1], int(WARM_UP_SHARE * ends[-1]))


def _turns(events: Iterable[StoredEvent], reader: RunReader) -> dict[int, float]:
    """Return when the step after each end of an epoch could begin, by the last step before."""
    found = {
        stored.event.step: stored.time for stored in events if isinstance(stored.event, EpochEnded)
    }
    # The event may have waited for the supervisor; the metrics have the time of the worker.
    validated = reader.history("validation/loss")
    ends = zip(validated.step, validated.time, strict=True)
    return found | {int(step): float(end) for step, end in ends}


def _step_seconds(losses: StoredPoints, warm: int, turns: Mapping[int, float]) -> list[float]:
    """Return the seconds of each step after `warm`, without the validations before some. What else
    the turn of an epoch takes, such as loader processes that start, counts."""
    steps, times = [int(step) for step in losses.step], [float(each) for each in losses.time]
    return [
        now - max(before, turns.get(step, before))
        for before, now, step in zip(times, times[1:], steps, strict=False)
        if step >= warm and now > max(before, turns.get(step, before))
    ]


def _rates(seconds: Sequence[float], samples: float) -> tuple[float, ...]:
    count = min(MOST_PARTS, len(seconds))
    if not count:
        return ()
    ends = [round(part * len(seconds) / count) for part in range(count + 1)]
    return tuple(
        samples * (end - begin) / sum(seconds[begin:end]) for begin, end in itertools.pairwise(ends)
    )


def _samples_per_step(status: RunStatus, spec: RunSpec) -> float:
    """Return the mean samples of a step."""
    samples = status.samples_per_second * status.step_seconds
    return samples if math.isfinite(samples) and samples > 0 else float(spec.batch_size)


def _shares_by_rank(newest: Mapping[str, float]) -> dict[int, dict[str, float]]:
    """Return the newest shares of the step time of each rank that has told them."""
    found: dict[int, dict[str, float]] = {}
    for series, value in newest.items():
        match series.split("/"):
            case ["rank", rank, name] if name.removesuffix("_share") in SHARES:
                found.setdefault(int(rank), {})[name.removesuffix("_share")] = value
    return found


def _mean_shares(by_rank: Mapping[int, Mapping[str, float]]) -> dict[str, float]:
    """Return the shares of the step time as a mean over the ranks."""
    found = {}
    for share in SHARES:
        values = [shares[share] for shares in by_rank.values() if share in shares]
        if values:
            found[share] = sum(values) / len(values)
    return found


def _memory(reader: RunReader, spec: RunSpec, ranks: Mapping[int, RankRecord]) -> dict[str, float]:
    """Return the most bytes that the workers held, by device of the spec, or for `cpu`.

    The workers tell their peaks. Processes that they have started, such as those that load data,
    are in what was measured from outside, now and then.
    """
    found = held_together(ranks)
    sampled = reader.history(PROCESS_MEMORY).value
    if len(sampled) and (memory_record.CPU in found or not found):
        most = max(found.get(memory_record.CPU, 0.0), float(sampled.max()))
        found[memory_record.CPU] = most
    if ranks:
        return found
    for rank, device in enumerate(spec.slots):
        for name in ("memory_reserved", "memory_allocated"):
            values = reader.history(f"rank/{rank}/{name}").value
            if len(values):
                found[device] = found.get(device, 0.0) + float(values.max())
                break
    return found


def held_together(ranks: Mapping[int, RankRecord]) -> dict[str, float]:
    """Return the peak of each device, of which several workers may hold parts, in bytes.

    The memory that workers share with the template that has forked them counts once. Of a GPU, all
    that programs hold beside the workers counts too: the frameworks' own part is in it.
    """
    found = dict[str, float]()
    for device in dict.fromkeys(name for record in ranks.values() for name in record.devices):
        parts = [r.devices[device] for r in ranks.values() if device in r.devices]
        shared = [part.shared for part in parts]
        others = max(part.used for part in parts) - sum(part.reserved for part in parts)
        found[device] = float(
            sum(part.peak for part in parts) - sum(shared) + max(shared) + max(0, others)
        )
    return found
