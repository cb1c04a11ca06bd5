"""The state machine of a run, and the fold from events to the status."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from engine.messages.events import (
    Alarm,
    AttemptStarted,
    CacheEmptied,
    CheckpointFailed,
    CheckpointSaved,
    CommandReceived,
    CommandRefused,
    EpochEnded,
    Event,
    HistogramLogged,
    ImageLogged,
    Metrics,
    Notice,
    Paused,
    Points,
    Progress,
    Queued,
    RecipeChosen,
    Restarting,
    Resumed,
    Rewound,
    RunEnded,
    Shrunk,
    StopStage,
    TrainingEnded,
    TrainingStarted,
    Trouble,
    WorkerFailed,
    WorkerReady,
    WorkerStarted,
)
from engine.runs.run_state import (
    RunState,
    RunStatus,
    accumulation_in_force,
    fold,
    not_finite_sentence,
)
from engine.spec.run_spec import RunSpec
from tests.support.events import EXAMPLES
from tests.support.sentences import sentence

ALL = {type(event): event for event in EXAMPLES}
RUNNING = RunStatus(state=RunState.RUNNING, attempt=1, step=7, metrics={"train/loss": 9.0})
TRAINS = TrainingStarted(0, 10, 3, 2, 1234)
CHANGES: list[tuple[type[Event], dict[str, Any]]] = [
    (Queued, {"state": RunState.QUEUED, "reason": "Queued behind run 12 on GPU 0 (next in line)."}),
    (
        AttemptStarted,
        {
            "state": RunState.STARTING,
            "supervisor_pid": 4242,
            "supervisor_created": 1000.5,
            "started": 50.0,
            "attempt_started": 50.0,
        },
    ),
    (WorkerStarted, {"worker_pids": (4243,), "workers_created": (1001.5,)}),
    (WorkerReady, {"workers_ready": 1}),
    (
        TrainingStarted,
        {"step": 0, "steps_per_epoch": 10, "epochs": 3, "replicas": 2, "parameters": 1234},
    ),
    (Metrics, {"metrics": {"train/loss": 0.25}}),
    (
        Progress,
        {
            "epoch": 1,
            "step": 2,
            "samples_per_second": 64.0,
            "step_seconds": 0.5,
            "seconds_left": 14.0,
        },
    ),
    (EpochEnded, {"epoch": 1, "step": 10, "metrics": RUNNING.metrics | {"validation/loss": 0.125}}),
    (CheckpointSaved, {"checkpoint": "/runs/1/checkpoints/x", "checkpoint_step": 10}),
    (CheckpointFailed, {"troubles": {"checkpoint": "There is no room for it."}}),
    (ImageLogged, {}),
    (HistogramLogged, {}),
    (CacheEmptied, {}),
    (Paused, {"state": RunState.PAUSED}),
    (Resumed, {"state": RunState.RUNNING}),
    (TrainingEnded, {"step": 30}),
    (Notice, {}),
    (Shrunk, {"shrunk": ALL[Shrunk]}),
    (Alarm, {}),
    (Trouble, {"troubles": {"hang": "No step for 120 s."}}),
    (WorkerFailed, {}),
    (CommandReceived, {}),
    (CommandRefused, {}),
    (StopStage, {"state": RunState.STOPPING}),
    (
        Rewound,
        {
            "step": 10,
            "epoch": 1,
            "metrics": {"validation/loss": 0.5},
            "checkpoint": "checkpoints/step-00000010",
            "checkpoint_step": 10,
        },
    ),
    (RecipeChosen, {}),
    (Restarting, {}),
    (RunEnded, {"state": RunState.FAILED, "reason": "Rank 1 failed.", "failure_rank": 1}),
]


def fold_all(*events: Event, status: RunStatus | None = None) -> RunStatus:
    status = status or RunStatus()
    for event in events:
        status = fold(status, event, 50.0)
    return status


@pytest.mark.parametrize(
    ("kind", "changes"), CHANGES, ids=lambda value: getattr(value, "__name__", "")
)
def test_what_each_event_changes_in_a_running_run(
    kind: type[Event], changes: dict[str, Any]
) -> None:
    expected = msgspec.structs.replace(RUNNING, updated=50.0, **changes)
    assert fold(RUNNING, ALL[kind], 50.0) == expected


def test_the_table_above_has_every_event() -> None:
    assert {kind for kind, _ in CHANGES} == set(ALL)


def test_training_starts_running_only_what_is_starting() -> None:
    assert fold_all(TRAINS).state is RunState.RUNNING
    assert fold_all(StopStage("ask"), TRAINS).state is RunState.STOPPING


def test_a_new_attempt_forgets_the_processes_and_the_failure_of_the_last() -> None:
    first = fold_all(*EXAMPLES)
    second = fold(first, AttemptStarted(2, 99, 2000.0), 60.0)
    assert first.state is RunState.FAILED
    assert (second.state, second.attempt, second.reason) == (RunState.STARTING, 2, "")
    assert (second.worker_pids, second.workers_ready, second.failure_rank) == ((), 0, -1)


def test_a_new_attempt_keeps_when_the_run_began_and_its_newest_checkpoint() -> None:
    first = fold_all(*EXAMPLES)
    second = fold(first, AttemptStarted(2, 99, 2000.0), 60.0)
    assert second.started == 50.0
    assert second.checkpoint_step == 10


def test_the_time_in_the_queue_is_no_time_of_the_run() -> None:
    started = AttemptStarted(1, 99, 2000.0)
    waiting = fold(fold(RunStatus(), started, 60.0), Queued(("1",), "Behind run 1."), 61.0)
    assert (waiting.state, waiting.started) == (RunState.QUEUED, 60.0)
    status = fold(waiting, Queued((), ""), 90.0)
    assert (status.state, status.started, status.reason) == (RunState.STARTING, 90.0, "")


def test_freed_devices_are_known_until_the_run_goes_on() -> None:
    freed = fold_all(TRAINS, Paused(3), Paused(3, freed_devices=True))
    assert (freed.state, freed.freed_devices) == (RunState.PAUSED, True)
    for event in (Resumed(3), RunEnded("stopped", "x"), AttemptStarted(2, 99, 2000.0)):
        assert not fold(freed, event, 60.0).freed_devices


def test_the_loss_is_the_last_one_also_when_it_is_nan() -> None:
    status = fold_all(Metrics(1.0, 2.0, [Points("train/loss", [1, 2], [0.5, math.nan])]))
    assert math.isnan(status.metrics["train/loss"])


def test_other_curves_and_empty_batches_are_no_figures() -> None:
    points = [Points("device/cpu/memory", [1], [1.0]), Points("train/loss", [], [])]
    assert fold_all(Metrics(1.0, 2.0, points)).metrics == {}


def test_a_run_that_has_ended_has_no_time_left() -> None:
    ended = fold(RunStatus(seconds_left=9.0, workers_ready=2), RunEnded("stopped", "x"), 1.0)
    assert (ended.seconds_left, ended.workers_ready) == (0.0, 0)
    assert ended.failure_rank == -1


@pytest.mark.parametrize(
    ("state", "is_over", "can_resume"),
    [
        (RunState.STARTING, False, False),
        (RunState.RUNNING, False, False),
        (RunState.PAUSED, False, False),
        (RunState.STOPPING, False, False),
        (RunState.FINISHED, True, False),
        (RunState.STOPPED, True, True),
        (RunState.FAILED, True, True),
        (RunState.INTERRUPTED, True, True),
    ],
)
def test_which_states_are_over_and_which_can_resume(
    state: RunState, is_over: bool, can_resume: bool
) -> None:
    assert (state.is_over, state.can_resume) == (is_over, can_resume)


def test_what_a_run_has_taken_leaves_out_what_lay_between_its_attempts() -> None:
    """100 s, a pause with them; a day later 10 s in the queue and 20 s of training."""
    status = RunStatus()
    for event, time in (
        (AttemptStarted(1, 5, 1.0), 1000.0),
        (RunEnded("finished", ""), 1100.0),
        (AttemptStarted(2, 6, 2.0), 87_500.0),
        (Queued(("3",), "Behind run 3."), 87_500.0),
        (Queued((), ""), 87_510.0),
    ):
        status = fold(status, event, time)
    assert status.started == 1000.0
    assert status.seconds(87_530.0) == 120.0
    for event, time in (
        (RunEnded("finished", ""), 87_530.0),
        (AttemptStarted(3, 7, 3.0), 90_000.0),
        (Queued(("12",), "x"), 90_000.0),
        (RunEnded("stopped", "x"), 95_000.0),
    ):
        status = fold(status, event, time)
    assert status.seconds(status.updated) == 120.0, "stopped in the queue"
    assert RunStatus(started=5.0, updated=9.0).seconds(9.0) == 4.0, "of an older store"
    assert RunStatus().seconds(9.0) == 0.0


def test_total_steps_are_known_once_training_has_started() -> None:
    assert RunStatus().total_steps == 0
    assert fold_all(TRAINS).total_steps == 30
    changed_on_the_way = TrainingStarted(6, 7, 3, 1, 1234, total_steps=16)
    assert fold_all(TRAINS, changed_on_the_way).total_steps == 16


@pytest.mark.parametrize(
    "end",
    [
        Trouble("hang", "The training goes on.", raised=False),
        AttemptStarted(2, 4242, 1000.5),
        RunEnded("stopped", "Stopped."),
    ],
)
def test_a_trouble_stays_until_it_or_the_attempt_is_over(end: Event) -> None:
    disk, hang = Trouble("disk", "It is full.", True), Trouble("hang", "No step.", True)
    status = fold_all(hang, Progress(1, 2, 64.0, 0.5, 14.0))
    assert status.troubles == {"hang": "No step."}
    assert fold_all(disk, end, status=status).troubles == (
        {"disk": "It is full."} if isinstance(end, Trouble) else {}
    )


def test_a_checkpoint_that_could_not_be_saved_is_a_trouble_until_one_could() -> None:
    status = fold_all(Trouble("disk", "It is full.", True), CheckpointFailed(3, "No room."))
    assert status.troubles == {"disk": "It is full.", "checkpoint": "No room."}
    saved = ALL[CheckpointSaved]
    assert fold_all(saved, status=status).troubles == {"disk": "It is full."}


def losses(*values: float, begin: int) -> Metrics:
    steps = list(range(begin, begin + len(values)))
    return Metrics(
        0.0,
        1.0,
        [Points("train/other", [1], [math.nan]), Points("train/loss", steps, list(values))],
    )


def test_the_first_step_since_which_the_loss_is_not_finite_is_kept() -> None:
    status = fold_all(losses(1.0, math.nan, 1.0, math.inf, begin=1))
    assert status.not_finite_since == 4
    assert not_finite_sentence(status) == sentence("loss-is-not-finite-number", step=4)
    status = fold_all(losses(math.nan, begin=5), TrainingEnded(5, True), status=status)
    assert status.not_finite_since == 4
    assert fold_all(Rewound(4, "step-4"), status=status).not_finite_since == 4
    assert fold_all(Rewound(3, "step-3"), status=status).not_finite_since == -1
    status = fold_all(losses(math.nan, 2.0, begin=6), status=status)
    assert (status.not_finite_since, not_finite_sentence(status)) == (-1, "")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, 4),
        ({"on_oom": "stop"}, 4),
        ({"epochs": 9}, 4),
        ({"batch_size": 32}, 1),
        ({"accumulation": 2}, 2),
        ({"devices": ("cpu:0",)}, 1),
    ],
)
def test_smaller_parts_stay_in_force_while_the_same_sizes_are_asked_for(
    changes: dict[str, Any], expected: int
) -> None:
    shrunk = Shrunk(1, 7, "", accumulation=4, asked=1, batch_size=64, replicas=2)
    status = fold_all(shrunk, Rewound(0, ""))
    spec = RunSpec(recipe="r", strategy="torch/ddp", devices=("cpu:0", "cpu:1"), batch_size=64)
    spec = msgspec.structs.replace(spec, **changes)
    assert accumulation_in_force(spec, len(spec.devices), status.shrunk) == expected
    assert accumulation_in_force(spec, len(spec.devices), None) == spec.accumulation
