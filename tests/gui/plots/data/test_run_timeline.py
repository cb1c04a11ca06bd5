"""Markers of the events of a run: checkpoints, restarts, edits, pauses and alarms."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec
import numpy as np
from PySide6.QtWidgets import QApplication

from engine.messages.events import (
    Alarm,
    AttemptStarted,
    CheckpointFailed,
    CheckpointSaved,
    Event,
    Failure,
    Restarting,
    Rewound,
    RunEnded,
    TrainingStarted,
    Trouble,
    WorkerStarted,
)
from engine.runs.settings_history import settings_history
from engine.runs.store.store_reader import StoredEvent
from engine.spec.catalog import recipe
from engine.spec.run_spec import RunSpec
from engine.spec.spec_file import replaced_spec, write_spec
from gui.bridge.settings_history import changes, edits
from gui.plots.data.run_timeline import MAX_MARKERS as MOST
from gui.plots.data.run_timeline import MarkerKind, RunTimeline
from gui.plots.data.series import Series
from gui.plots.data.x_axis import XKind
from gui.plots.panel.run_plots import RunPlots
from tests.gui.stored_points import stored_points
from tests.support.sentences import sentence

T = 1_700_000_000.0
SPEC = RunSpec(recipe="digits", strategy="torch/single", devices=("cpu:0",), epochs=2)
KILLED = Failure(0, "cpu:0", -9, "SIGKILL", "Rank 0 was killed.", "", "")

FIRST: list[tuple[float, Event]] = [
    (0, AttemptStarted(1, 1, 0.0)),
    (1, WorkerStarted(0, 1, ("cpu:0",))),
    (5, TrainingStarted(0, 100, 10, 1, 1)),
    (65, CheckpointSaved("/runs/1/checkpoints/step-60", 60, 1, 1, 0.1)),
]


def stored(events: list[tuple[float, Event]]) -> list[StoredEvent]:
    return [StoredEvent(seq, T + at, event) for seq, (at, event) in enumerate(events)]


def timeline(*events: tuple[float, Event], edits: dict[int, str] | None = None) -> RunTimeline:
    made = RunTimeline()
    made.set_edits(edits or {})
    made.add_events(stored([*FIRST, *events]))
    return made


def test_an_automatic_restart_says_its_number_and_why() -> None:
    made = timeline(
        (95, Restarting(KILLED, 1, 3)),
        (95, AttemptStarted(2, 1, 0.0)),
        (96, Rewound(60, "step-60")),
        (97, WorkerStarted(0, 2, ("cpu:0",))),
        (105, TrainingStarted(60, 100, 10, 1, 1)),
    )
    marker = made.markers[-1]
    assert (marker.kind, marker.step, marker.time - T) == (MarkerKind.RESTART, 60, 105)
    assert marker.text == sentence("restart-of-at-step-from-step-60")


def test_a_restart_without_a_checkpoint_removes_the_markers() -> None:
    made = timeline(
        (95, Restarting(KILLED, 2, 3)),
        (95, AttemptStarted(2, 1, 0.0)),
        (96, Rewound(0, "")),
        (105, TrainingStarted(0, 100, 10, 1, 1)),
    )
    (marker,) = made.markers
    assert marker.text == sentence("restart-from-beginning")
    assert marker.step == 0


def test_a_manual_resume_says_how_long_the_run_was_down() -> None:
    made = timeline(
        (95, Restarting(KILLED, 1, 1)),
        (95, AttemptStarted(2, 1, 0.0)),
        (100, RunEnded("failed", "Rank 0 was killed.", KILLED)),
        (1000, AttemptStarted(3, 2, 0.0)),
        (1001, Rewound(60, "step-60")),
        (1295, TrainingStarted(60, 100, 10, 1, 1)),
    )
    assert [marker.kind for marker in made.markers] == [MarkerKind.CHECKPOINT, MarkerKind.RESTART]
    assert made.markers[-1].text == sentence("resumed-at-step-after-attempt")


def test_an_edit_is_marked_at_the_first_attempt_that_trains_with_it() -> None:
    made = timeline(
        (95, RunEnded("stopped", "")),
        (1000, AttemptStarted(2, 2, 0.0)),
        (1001, RunEnded("failed", "No memory.", KILLED)),
        (2000, AttemptStarted(3, 3, 0.0)),
        (2010, TrainingStarted(60, 100, 10, 2, 1)),
        (2050, RunEnded("stopped", "")),
        (3000, AttemptStarted(4, 3, 0.0)),
        (3010, TrainingStarted(90, 100, 10, 2, 1)),
        edits={2: "devices cpu:0 → cpu:0 + cpu:1"},
    )
    _, edited, resumed = made.markers
    assert edited.kind is MarkerKind.EDIT
    assert edited.text.endswith("(attempt 3). Changed: devices cpu:0 → cpu:0 + cpu:1.")
    assert resumed.kind is MarkerKind.RESTART


def test_an_edit_that_is_read_after_its_event_is_marked_too() -> None:
    made = timeline(
        (95, RunEnded("stopped", "")),
        (1000, AttemptStarted(2, 2, 0.0)),
        (1010, TrainingStarted(60, 100, 10, 2, 1)),
    )
    before = made.markers[-1]
    assert before.kind is MarkerKind.RESTART
    for _ in range(2):  # an event of a later attempt has all of them read again
        made.set_edits({2: "epochs 2 → 3"})
    *_, edited = made.markers
    assert edited.kind is MarkerKind.EDIT
    assert edited.text == f"{before.text} Changed: epochs 2 → 3."
    assert len(made.markers) == 2


def test_an_attempt_that_never_trained_leaves_no_restart() -> None:
    made = RunTimeline()
    events = [
        (0, AttemptStarted(1, 1, 0.0)),
        (1, RunEnded("failed", "No memory.", KILLED)),
        (10, AttemptStarted(2, 1, 0.0)),
        (15, TrainingStarted(0, 100, 10, 1, 1)),
    ]
    made.add_events(stored(events))
    assert not made.markers


def test_trouble_alarms_and_lost_checkpoints_are_marked_while_they_last() -> None:
    made = timeline(
        (70, Trouble("hang", "No step for 10 minutes.", True)),
        (80, Trouble("hang", "Steps come again.", False)),
        (81, Alarm("cpu", "hot", "Too hot.", True)),
        (82, CheckpointFailed(80, "The disk is full.")),
    )
    told = [marker for marker in made.markers if marker.kind is MarkerKind.ALARM]
    assert [marker.text for marker in told] == [
        "No step for 10 minutes.",
        "Too hot.",
        "The disk is full.",
    ]
    assert math.isnan(told[0].step)
    assert told[2].step == 80


def test_what_was_changed_is_read_from_the_run_folder(tmp_path: Path) -> None:
    write_spec(tmp_path, SPEC, recipe("digits"))
    moved = msgspec.structs.replace(SPEC, strategy="torch/ddp", devices=("cpu:0", "cpu:1"))
    faster = msgspec.structs.replace(moved, learning_rate=0.5, settings={"width": 8})
    for attempt, spec in ((2, moved), (10, faster)):
        with replaced_spec(tmp_path, spec, attempt):
            pass
    found = edits(settings_history(tmp_path))
    assert list(found) == [2, 10]
    assert found[2] == "strategy torch/single → torch/ddp, devices cpu:0 → cpu:0 + cpu:1"
    assert "→ 0.5" in found[10]
    assert "width – → 8" in found[10]
    assert changes(SPEC, SPEC) == ""
    (tmp_path / "spec.before-2.toml").write_text("nonsense")
    assert list(edits(settings_history(tmp_path))) == [10]


def grown(run_plots: RunPlots) -> None:
    """A run that was down for an hour after step 100."""
    steps = np.arange(1.0, 201.0)
    times = T + 5 + steps + np.where(steps > 100, 3600.0, 0.0)
    run_plots.add_points("train/loss", stored_points(steps, 1 + steps % 7, times))
    run_plots.add_events(
        stored(
            [
                *FIRST,
                (105, RunEnded("stopped", "")),
                (3600, AttemptStarted(2, 1, 0.0)),
                (3705, TrainingStarted(100, 100, 10, 1, 1)),
            ]
        )
    )
    QApplication.processEvents()
    for _ in range(2 * len(run_plots.plots())):
        run_plots.tick()


def drawn(run_plots: RunPlots) -> tuple[np.ndarray, np.ndarray]:
    item = run_plots.plot("Loss").curves["train"].items[1]
    return item.getData()


def test_no_line_crosses_the_time_in_which_the_run_was_down(run_plots: RunPlots) -> None:
    for smoothing in (0, 900):
        run_plots.toolbar.slider.setValue(smoothing)
        for kind, gaps in ((XKind.STEP, 0), (XKind.RELATIVE, 1), (XKind.WALL, 1), (XKind.EPOCH, 0)):
            run_plots.clear()
            run_plots.toolbar.x_buttons[kind].click()
            grown(run_plots)
            assert int(np.isnan(drawn(run_plots)[1]).sum()) == gaps, (kind, smoothing)


def test_decimated_lines_have_that_gap_too_at_any_zoom() -> None:
    steps = np.arange(100_000.0)
    times = T + steps + np.where(steps >= 70_001, 9e5, 0.0)
    made = RunTimeline()
    made.add_events(
        stored(
            [
                (-1, AttemptStarted(1, 1, 0.0)),
                (-1, TrainingStarted(0, 100, 10, 1, 1)),
                (70_000, RunEnded("stopped", "")),
                (900_000, AttemptStarted(2, 1, 0.0)),
                (970_000, TrainingStarted(70_000, 100, 10, 1, 1)),
            ]
        )
    )
    series = Series()
    series.set_x_scale(made.scale(XKind.WALL))
    series.extend(steps, np.sin(steps), times)
    series.set_smoothing(0.9)
    for pixels in (50, 333, 1000):
        for view in (series.view, series.smoothed_view):
            xs, ys = view(T, times[-1], pixels)
            crossing = np.flatnonzero(np.diff(xs) > 8e5)
            assert len(crossing) == 1
            assert np.isnan(ys[crossing]).any() or np.isnan(ys[crossing + 1]).any()
            assert np.isnan(ys).sum() == 1


def test_gaps_have_their_positions_on_every_axis_and_in_a_zoom(run_plots: RunPlots) -> None:
    steps = np.arange(1.0, 201.0)
    values = np.where((steps == 60) | (steps == 150), np.nan, 1 + steps)
    times = T + 5 + steps + np.where(steps > 100, 3600.0, 0.0)
    grown(run_plots)
    expected = {
        XKind.STEP: [60, 150],
        XKind.EPOCH: [0.6, 1.5],
        XKind.RELATIVE: [60, 150],
        XKind.WALL: [T + 65, T + 3755],
    }
    loss = run_plots.plot("Loss")
    run_plots.set_points("train/loss", stored_points(steps, values, times))
    for kind, positions in expected.items():
        for log in (False, True):
            run_plots.toolbar.x_buttons[kind].click()
            run_plots.toolbar.log_y.setChecked(log)
            for _ in range(4 * len(run_plots.plots())):
                run_plots.tick()
            assert loss.canvas.gap_ticks.positions.tolist() == positions, kind
    run_plots.toolbar.x_buttons[XKind.WALL].click()
    run_plots.set_follow(False)
    loss.canvas.show_x((T + 3750, T + 3760))
    assert loss.refresh()
    assert loss.canvas.gap_ticks.positions.tolist() == [T + 3755]
    middle = int(loss.canvas.area.width() / 2)
    assert loss.canvas.gap_ticks.near(middle) == T + 3755
    assert loss.canvas.gap_ticks.near(middle - 40) is None


def test_checkpoints_without_end_are_thinned_and_edits_stay() -> None:
    timeline = RunTimeline()
    timeline.add_events([StoredEvent(0, T, Alarm("cpu", "hot", "Too hot.", raised=True))])
    saved = [StoredEvent(n, T + n, CheckpointSaved("c", n, 1, 1, 0.1)) for n in range(3 * MOST)]
    timeline.add_events(saved)
    assert len(timeline.markers) <= MOST
    kinds = [marker.kind for marker in timeline.markers]
    assert kinds.count(MarkerKind.ALARM) == 1
    assert timeline.markers[-1].step == 3 * MOST - 1
    assert timeline.markers[1].step < 100


def test_epochs_end_at_whole_numbers_after_a_change_of_the_batch_size() -> None:
    """10 of 23 batches of the second epoch are done when the run continues with 9 larger batches of
    15."""
    made = RunTimeline()
    events: list[tuple[float, Event]] = [
        (0, AttemptStarted(1, 1, 1.0)),
        (5, TrainingStarted(0, 23, 4, 1, 1, 92)),
        (90, RunEnded("finished", "x")),
        (100, AttemptStarted(2, 1, 1.0)),
        (101, Rewound(33, "step-00000033")),
        (105, TrainingStarted(33, 15, 4, 1, 1, 72)),
    ]
    made.add_events(stored(events))
    axis = made.scale(XKind.EPOCH)
    steps = np.array([23.0, 33.0, 42.0, 57.0, 72.0])
    assert np.allclose(axis.x(steps, steps), [1.0, 1 + 10 / 23, 2.0, 3.0, 4.0])
