"""A zoom into a long curve reads its points; tooltips describe the markers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from engine.messages.events import AttemptStarted, CheckpointSaved, Metrics, Points, TrainingStarted
from engine.runs.store.store_reader import StoredEvent
from gui.bridge.background import Background
from gui.bridge.machines.machines import Machines
from gui.bridge.store_reader import StoreReader
from gui.compare.comparison_plots import ComparisonPlots
from gui.plots.data.x_axis import XKind
from gui.plots.panel.run_plots import RunPlots
from gui.plots_controller import PlotsController
from gui.style.theme import DARK
from tests.gui.conftest import Record
from tests.gui.plots.conftest import paint
from tests.gui.stored_points import stored_points
from tests.support.sentences import sentence

COUNT = 60_000


@pytest.fixture
def long_run(record: Record) -> Any:
    """A run whose loss is its step, except for one spike."""
    run = record()
    run.begin()
    values = np.arange(1.0, COUNT + 1)
    values[30_000] = -1e6
    steps = list(range(1, COUNT + 1))
    begin = time.time() + 1
    run.add(Metrics(begin, begin + COUNT, [Points("train/loss", steps, values.tolist())]))
    return run


@pytest.fixture
def background() -> Iterator[Background]:
    made = Background()
    yield made
    made.finish()


@pytest.mark.parametrize("kind", [XKind.STEP, XKind.RELATIVE])
def test_zooming_in_fetches_every_point_in_the_background(
    long_run: Any, background: Background, qtbot: QtBot, kind: XKind
) -> None:
    reader, run_plots, compared = StoreReader(Machines()), RunPlots(DARK), ComparisonPlots(DARK)
    qtbot.addWidget(run_plots)
    qtbot.addWidget(compared)
    run_plots.toolbar.slider.setValue(0)
    controller = PlotsController(run_plots, compared, reader, background)
    run_plots.resize(1000, 700)
    run_plots.show()
    controller.watch(long_run.id)
    reader.watch(long_run.id)
    run_plots.toolbar.x_buttons[kind].click()
    asked: list[str] = []
    run_plots.zoom_points_wanted.connect(lambda series, *_: asked.append(series))
    paint(run_plots)
    assert not asked
    loss = run_plots.plot("Loss")
    curve = loss.curves["train"]
    first, last = curve.series.x_range() or (0.0, 0.0)
    x = first + (last - first) * 0.1234
    narrow = (last - first) / 500
    with qtbot.waitSignal(controller.zoom_reader.zoom_points):
        loss.canvas.show_x((x, x + narrow))
        run_plots.set_follow(False)
        paint(run_plots)
    paint(run_plots)
    point = curve.point_at(x + narrow / 2)
    assert point.step == point.low == point.high
    before = len(asked)
    loss.canvas.show_x((x + narrow / 4, x + narrow))
    paint(run_plots)
    assert len(asked) == before
    reader.watch(None)


def test_a_marker_describes_its_event_and_can_be_hidden(run_plots: RunPlots) -> None:
    run_plots.add_points(
        "train/loss", stored_points(np.arange(100.0), np.arange(100.0), np.arange(100.0))
    )
    run_plots.add_events(
        [
            StoredEvent(1, 0.0, AttemptStarted(1, 1, 0.0)),
            StoredEvent(2, 0.0, TrainingStarted(0, 50, 2, 1, parameters=1)),
            StoredEvent(3, 60.0, CheckpointSaved("checkpoints/step50", 50, 1, 1, 0.1)),
        ]
    )
    canvas = run_plots.plot("Loss").canvas

    def pointed_at(place: float, above_axis: float) -> str:
        paint(run_plots)
        (x0, x1), _ = canvas.area.viewRange()
        pixel = (place - x0) / (x1 - x0) * canvas.area.width()
        scene = canvas.area.mapToScene(pixel, canvas.area.height() - above_axis)
        QTest.mouseMove(canvas.viewport(), canvas.mapFromScene(scene))
        QApplication.processEvents()
        return str(canvas.markers.note)

    assert pointed_at(50, 5.0) == sentence("checkpoint-of-step", step=50, name="step50")
    assert pointed_at(20, 5.0) == ""
    assert pointed_at(50, 60.0) == "", "only the tick shows it, not every place above it"
    run_plots.toolbar.x_buttons[XKind.RELATIVE].click()
    assert "Checkpoint" in pointed_at(60, 5.0)
    run_plots.toolbar.markers.click()
    assert pointed_at(60, 5.0) == ""


def test_ranks_are_sorted_by_number(run_plots: RunPlots) -> None:
    for rank in (10, 2, 0):
        for figure in ("compute_share", "data_share"):
            run_plots.add_points(
                f"rank/{rank}/{figure}", stored_points(np.arange(3.0), np.arange(3.0))
            )
    names = run_plots.plot("Step time by rank").legend.names()
    assert names == [f"{figure} {rank}" for rank in (0, 2, 10) for figure in ("data", "compute")]
