"""The horizontal axis: steps, epochs, time of training and the clock, also after a resume."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from engine.messages.events import (
    Alarm,
    AttemptStarted,
    CheckpointSaved,
    Event,
    Paused,
    Resumed,
    Rewound,
    RunEnded,
    Shrunk,
    TrainingStarted,
    WorkerStarted,
)
from engine.runs.store.store_reader import StoredEvent
from gui.plots.data.run_timeline import MarkerKind, RunTimeline
from gui.plots.data.x_axis import XKind
from gui.plots.plot.axes import Axis

T = 1_700_000_000.0


def timeline(*events: tuple[float, Event]) -> RunTimeline:
    made = RunTimeline()
    made.add_events(StoredEvent(seq, T + at, event) for seq, (at, event) in enumerate(events))
    return made


def started(step: int, per_epoch: int = 100) -> TrainingStarted:
    return TrainingStarted(step, per_epoch, 10, 1, parameters=1)


def positions(
    timeline: RunTimeline, kind: XKind, steps: list[float], times: list[float]
) -> list[float]:
    found = timeline.scale(kind).x(np.array(steps), T + np.array(times))
    return [float(place) for place in found]


RESUMED = timeline(
    (0, AttemptStarted(1, 1, 0.0)),
    (5, started(0)),
    (65, CheckpointSaved("checkpoints/step60", 60, 1, 1, 0.1)),
    (105, RunEnded("stopped", "")),
    (1000, AttemptStarted(2, 1, 0.0)),
    (1001, WorkerStarted(0, 1, ())),
    (1010, Rewound(60, "step60")),
    (1020, started(60, per_epoch=50)),
)


def test_time_of_training_leaves_out_what_lies_between_two_attempts() -> None:
    assert positions(RESUMED, XKind.RELATIVE, [0] * 4, [5, 65, 1020, 1050]) == [0, 60, 100, 130]
    assert positions(RESUMED, XKind.RELATIVE, [0, 0], [500, 2]) == [100, 0]
    assert positions(RESUMED, XKind.WALL, [0, 0], [5, 1020]) == [T + 5, T + 1020]


def test_a_run_that_was_cut_off_is_down_from_its_last_sign_of_life() -> None:
    cut = timeline(
        (0, AttemptStarted(1, 1, 0.0)),
        (5, started(0)),
        (65, CheckpointSaved("step60", 60, 1, 1, 0.1)),
        (1000, AttemptStarted(2, 1, 0.0)),
        (1010, RunEnded("failed", "It did not even begin.")),
        (2000, AttemptStarted(3, 1, 0.0)),
        (2010, started(60)),
    )
    assert positions(cut, XKind.RELATIVE, [0, 0], [65, 2015]) == [60, 65]


def test_epochs_go_on_where_their_length_changes() -> None:
    assert positions(RESUMED, XKind.EPOCH, [0, 50, 60, 85], [0] * 4) == pytest.approx(
        [0, 0.5, 0.6, 1.1]
    )


def test_without_a_start_points_have_no_place_in_epochs_or_time() -> None:
    empty = timeline()
    assert positions(empty, XKind.STEP, [7], [0]) == [7]
    assert all(map(math.isnan, positions(empty, XKind.EPOCH, [7], [0])))
    assert all(map(math.isnan, positions(empty, XKind.RELATIVE, [7], [0])))


def test_what_happened_becomes_markers_and_lost_checkpoints_lose_theirs() -> None:
    made = timeline(
        (0, AttemptStarted(1, 1, 0.0)),
        (5, started(0)),
        (10, Alarm("gpu", "hot", "GPU 0 is too hot.", True)),
        (11, Alarm("gpu", "hot", "GPU 0 is fine.", False)),
        (20, Paused(15)),
        (50, Resumed(15)),
        (65, CheckpointSaved("checkpoints/a", 60, 1, 1, 0.1)),
        (95, CheckpointSaved("checkpoints/b", 90, 1, 1, 0.1)),
        (1000, AttemptStarted(2, 1, 0.0)),
        (1010, Rewound(60, "a")),
        (1020, started(60)),
    )
    assert [(marker.kind, marker.time - T) for marker in made.markers] == [
        (MarkerKind.ALARM, 10),
        (MarkerKind.PAUSE, 50),
        (MarkerKind.CHECKPOINT, 65),
        (MarkerKind.RESTART, 1020),
    ]
    assert "pause of 0:00:30" in made.markers[1].text
    assert "Resumed at step 60 after" in made.markers[3].text


def test_smaller_parts_have_a_mark_where_they_begin() -> None:
    made = timeline(
        (0, AttemptStarted(1, 1, 0.0)),
        (5, started(0)),
        (35, Shrunk(1, 31, "Rank 1 ran out of memory.", 2, 1, 64, 2)),
        (65, CheckpointSaved("checkpoints/a", 60, 1, 1, 0.1)),
        (95, Shrunk(0, 91, "Rank 0 ran out of memory.", 4, 1, 64, 2, restarts=True)),
        (100, AttemptStarted(2, 1, 0.0)),
        (101, Rewound(60, "a")),
        (110, started(60)),
        (200, AttemptStarted(3, 1, 0.0)),
        (210, started(60)),
    )
    assert [(marker.kind, marker.step, marker.text[:7]) for marker in made.markers] == [
        (MarkerKind.SHRUNK, 31, "Rank 1 "),
        (MarkerKind.CHECKPOINT, 60, "Checkpo"),
        (MarkerKind.SHRUNK, 60, "Rank 0 "),
        (MarkerKind.RESTART, 60, "Resumed"),
    ]


def test_positions_are_described_with_their_step() -> None:
    assert RESUMED.scale(XKind.STEP).describe(50, 50) == "step 50 · epoch 0.5"
    assert RESUMED.scale(XKind.EPOCH).describe(1.1, 85) == "epoch 1.10 · step 85"
    assert RESUMED.scale(XKind.RELATIVE).describe(3725, 1200) == "1:02:05 · step 1,200"
    clock = RESUMED.scale(XKind.WALL).describe(T, math.nan)
    assert clock == time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(T))


def test_the_axis_speaks_of_what_it_counts(qapp: object) -> None:
    axis = Axis("bottom")
    axis.set_kind(XKind.RELATIVE)
    ((every, values),) = axis.tickValues(0, 7200, 500)
    labels = axis.tickStrings(values, 1.0, every)
    assert labels == ["0:00:00", "0:30:00", "1:00:00", "1:30:00", "2:00:00"]
    axis.set_kind(XKind.EPOCH)
    assert axis.tickStrings([0.5, 2.0], 1.0, 0.5) == ["0.5", "2"]
