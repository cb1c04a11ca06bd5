"""Phases and marks of a run, by its events."""

from __future__ import annotations

from typing import NamedTuple

from engine.facts.history import History, MarkKind, Phase
from engine.messages.events import (
    Alarm,
    AttemptStarted,
    CheckpointSaved,
    EpochEnded,
    Event,
    Failure,
    Paused,
    Queued,
    Restarting,
    Resumed,
    Rewound,
    RunEnded,
    Shrunk,
    StopStage,
    TrainingStarted,
    Trouble,
)
from tests.support.sentences import sentence

FAILURE = Failure(2, "GPU 2", 0, "SIGKILL", "It was killed. More.", "", "")


class At(NamedTuple):
    time: float
    event: Event


def started(step: int = 0) -> TrainingStarted:
    return TrainingStarted(step=step, steps_per_epoch=10, epochs=9, replicas=1, parameters=1)


def epoch(number: int, accuracy: float) -> EpochEnded:
    metrics = {"validation/loss": 1.0, "validation/accuracy": accuracy}
    return EpochEnded(number, number * 10, metrics)


def of(*events: tuple[float, Event]) -> History:
    history = History()
    history.add(At(time, event) for time, event in events)
    return history


def phases(history: History) -> list[tuple[Phase, float, float, str]]:
    return [(each.phase, each.begin, each.end, each.text) for each in history.spans()]


def texts(history: History, kind: MarkKind) -> list[str]:
    return [mark.text for mark in history.marks if mark.kind is kind]


def test_a_run_that_waits_trains_pauses_and_ends() -> None:
    history = of(
        (0, AttemptStarted(1, 1, 1.0)),
        (1, Queued(("7",), "behind run 7")),
        (5, Queued((), "")),
        (7, started()),
        (17, epoch(1, 0.5)),
        (27, epoch(2, 0.4)),
        (30, Paused(25)),
        (40, Resumed(25)),
        (50, epoch(3, 0.6)),
        (51, CheckpointSaved("c", 30, 3, 1, 0.1)),
        (52, RunEnded("finished", "All 3 epochs are done.")),
    )
    assert phases(history) == [
        (Phase.STARTING, 0, 1, ""),
        (Phase.WAITING, 1, 5, ""),
        (Phase.STARTING, 5, 7, ""),
        (Phase.TRAINING, 7, 30, "epochs 1–2"),
        (Phase.PAUSED, 30, 40, ""),
        (Phase.TRAINING, 40, 52, "epoch 3"),
    ]
    assert history.seconds() == 52
    assert history.seconds(Phase.TRAINING) == 35
    assert texts(history, MarkKind.BEST) == [
        "best accuracy 0.5, epoch 1",
        "best accuracy 0.6, epoch 3",
    ]
    assert texts(history, MarkKind.CHECKPOINT) == ["checkpoint at step 30"]
    assert texts(history, MarkKind.PAUSE) == ["paused"]
    assert texts(history, MarkKind.END) == ["finished"]
    assert history.is_over


def test_a_failure_that_is_restarted() -> None:
    history = of(
        (0, AttemptStarted(1, 1, 1.0)),
        (2, started()),
        (10, epoch(1, 0.5)),
        (12, epoch(2, 0.9)),
        (14, Restarting(FAILURE, 1, 3)),
        (15, AttemptStarted(2, 1, 1.0)),
        (16, Rewound(10, "step-10", 1)),
        (18, started(10)),
        (28, epoch(2, 0.7)),
    )
    assert phases(history) == [
        (Phase.STARTING, 0, 2, ""),
        (Phase.TRAINING, 2, 14, "epochs 1–2"),
        (Phase.RESTARTING, 14, 18, ""),
        (Phase.TRAINING, 18, 28, "epoch 2"),
    ]
    assert texts(history, MarkKind.FAILURE) == [sentence("rank-failed-restarted")]
    # What was best after the checkpoint is no part of the run any more.
    assert texts(history, MarkKind.BEST) == [
        "best accuracy 0.5, epoch 1",
        "best accuracy 0.7, epoch 2",
    ]


def test_a_run_that_is_stopped_and_resumed_the_next_day() -> None:
    history = of(
        (0, AttemptStarted(1, 1, 1.0)),
        (1, started()),
        (5, StopStage("ask")),
        (6, StopStage("kill")),
        (7, RunEnded("stopped", "Stopped.")),
        (90_000, AttemptStarted(2, 1, 1.0)),
        (90_001, started()),
    )
    *before, starting, training = phases(history)
    assert [each[0] for each in before] == [Phase.STARTING, Phase.TRAINING, Phase.STOPPING]
    assert (starting[0], training[0]) == (Phase.STARTING, Phase.TRAINING)
    assert history.seconds() == 8
    assert history.spans(90_005)[-1].end == 90_005
    assert history.spans(90_005)[-1].attempt == 2
    assert texts(history, MarkKind.STOP) == ["stopped"]
    assert texts(history, MarkKind.RESUME) == ["attempt 2"]


def test_a_lost_device_a_full_disk_and_a_failure() -> None:
    history = of(
        (0, AttemptStarted(1, 1, 1.0)),
        (1, started()),
        (2, Alarm("GPU-1", "hot", "It is hot.", raised=True)),
        (3, Alarm("GPU-1", "lost", "GPU 1 is lost. Look at it.", raised=True)),
        (4, Trouble("disk", "The folder cannot be written. Make room.", raised=True)),
        (5, Paused(3)),
        (6, RunEnded("failed", "Rank 2 was killed. More.", FAILURE)),
    )
    assert texts(history, MarkKind.FAILURE) == ["GPU 1 is lost.", "Rank 2 was killed."]
    assert texts(history, MarkKind.TROUBLE) == ["The folder cannot be written."]
    assert texts(history, MarkKind.PAUSE) == ["paused, disk full"]


def test_figures_that_are_no_numbers_are_never_best() -> None:
    history = of(
        (0, AttemptStarted(1, 1, 1.0)),
        (1, started()),
        (2, epoch(1, float("nan"))),
        (3, epoch(2, 0.1)),
        (4, epoch(3, 0.1)),
    )
    assert texts(history, MarkKind.BEST) == ["best accuracy 0.1, epoch 2"]


def test_no_events_no_history() -> None:
    history = History()
    assert (history.spans(5.0), history.marks, history.seconds()) == ([], [], 0)


def test_smaller_parts_are_marked_and_a_restart_for_them_is_a_phase() -> None:
    history = of(
        (0, AttemptStarted(1, 1, 1.0)),
        (7, started()),
        (9, Shrunk(1, 3, "Rank 1 ran out of memory (on cpu:0). More.", 2, 1, 8, 2)),
        (12, Shrunk(0, 6, "Rank 0 ran out of memory. More.", 4, 1, 8, 2, restarts=True)),
        (13, AttemptStarted(2, 1, 1.0)),
        (17, started()),
    )
    assert texts(history, MarkKind.TROUBLE) == [
        "Rank 1 ran out of memory (on cpu:0).",
        "Rank 0 ran out of memory.",
    ]
    assert [phase for phase, *_ in phases(history)] == [
        Phase.STARTING,
        Phase.TRAINING,
        Phase.RESTARTING,
        Phase.TRAINING,
    ]
