"""Linked plots: which one is repainted, which range they show, and their common crosshair."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget

from gui.plots.panel.run_plots import RunPlots
from gui.plots.plot.canvas import Canvas
from gui.plots.plot.curve_plot import CurvePlot
from tests.gui.conftest import Patch
from tests.gui.plots.conftest import has_crosshair, paint, read_out
from tests.gui.stored_points import stored_points

STEPS = np.arange(1.0, 101.0)
HALF = np.full(100, 0.5)


def steps_in_sight(plot: CurvePlot) -> tuple[float, float]:
    first, last = plot.canvas.area.viewRange()[0]
    return first, last


def test_one_plot_is_painted_a_tick_and_then_none(run_plots: RunPlots, monkeypatch: Patch) -> None:
    run_plots.toolbar.link_x.setChecked(False)
    paint(run_plots)
    painted: list[str] = []
    refresh = CurvePlot.refresh

    def watched(plot: CurvePlot) -> bool:
        done = refresh(plot)
        painted.extend([plot.title] * done)
        return done

    monkeypatch.setattr(CurvePlot, "refresh", watched)
    run_plots.add_points("train/loss", stored_points(STEPS, HALF))
    run_plots.add_points("device/a/utilisation", stored_points(STEPS, HALF))
    run_plots.tick()
    assert len(painted) == 1
    run_plots.tick()
    assert sorted(painted) == ["Device utilisation", "Loss"]
    run_plots.tick()
    assert len(painted) == 2


def test_linked_plots_show_the_same_steps(run_plots: RunPlots) -> None:
    loss, memory = run_plots.plot("Loss"), run_plots.plot("Device memory")
    run_plots.add_points("train/loss", stored_points(STEPS, HALF))
    run_plots.add_points("device/a/memory", stored_points(STEPS[:10], HALF[:10]))
    paint(run_plots)
    assert steps_in_sight(loss) == steps_in_sight(memory)
    loss.canvas.area.setXRange(20, 40, padding=0)
    loss.canvas.area.sigRangeChangedManually.emit([True, True])
    assert not run_plots.toolbar.follow.isChecked()
    assert steps_in_sight(memory) == (20, 40)
    run_plots.add_points("train/loss", stored_points(STEPS + 100, HALF))
    paint(run_plots)
    assert steps_in_sight(loss) == steps_in_sight(memory) == (20, 40)
    run_plots.set_follow(True)
    paint(run_plots)
    assert steps_in_sight(loss) == steps_in_sight(memory)
    assert steps_in_sight(loss)[1] > 200


def test_plots_that_are_not_linked_go_their_own_ways(run_plots: RunPlots) -> None:
    loss, memory = run_plots.plot("Loss"), run_plots.plot("Device memory")
    run_plots.toolbar.link_x.setChecked(False)
    run_plots.add_points("train/loss", stored_points(STEPS, HALF))
    run_plots.add_points("device/a/memory", stored_points(STEPS[:10], HALF[:10]))
    paint(run_plots)
    own = steps_in_sight(memory)
    assert own[1] < 12
    for linked in (True, False):
        run_plots.toolbar.link_x.setChecked(linked)
        paint(run_plots)
        assert (steps_in_sight(memory) == steps_in_sight(loss)) is linked
    loss.canvas.area.setXRange(20, 40, padding=0)
    loss.canvas.area.sigRangeChangedManually.emit([True, True])
    paint(run_plots)
    assert run_plots.toolbar.follow.isChecked()
    assert steps_in_sight(memory) == own
    loss.canvas.fit_requested.emit()
    paint(run_plots)
    assert steps_in_sight(loss)[1] > 100


def test_the_bar_rules_all_plots(run_plots: RunPlots) -> None:
    rng = np.random.default_rng(0)
    run_plots.add_points("train/loss", stored_points(STEPS, rng.uniform(1, 2, 100)))
    paint(run_plots)
    loss = run_plots.plot("Loss")
    run_plots.toolbar.slider.setValue(0)
    loss.set_crosshair(50)
    noisy = read_out(loss)
    run_plots.toolbar.slider.setValue(999)
    loss.set_crosshair(50)
    assert read_out(loss).startswith(f"{noisy} smoothed ")
    QTest.mouseClick(run_plots.toolbar.log_y, Qt.MouseButton.LeftButton)
    assert loss.canvas.log_y
    assert not run_plots.plot("Device utilisation").canvas.log_y
    run_plots.add_points("validation/top_5", stored_points(STEPS, HALF))
    assert run_plots.plot("Top 5").canvas.log_y
    paint(run_plots)
    QTest.mouseClick(run_plots.toolbar.follow, Qt.MouseButton.LeftButton)
    before = steps_in_sight(loss)
    run_plots.add_points("train/loss", stored_points(STEPS + 100, HALF))
    paint(run_plots)
    assert steps_in_sight(loss) == before
    QTest.mouseClick(run_plots.toolbar.fit, Qt.MouseButton.LeftButton)
    paint(run_plots)
    assert steps_in_sight(loss)[1] > 200


def test_the_crosshair_is_shown_in_all_plots_and_stays_below_the_mouse(run_plots: RunPlots) -> None:
    run_plots.add_points("train/loss", stored_points(STEPS, HALF))
    run_plots.add_points("device/a/memory", stored_points(STEPS, HALF))
    paint(run_plots)
    run_plots.plot("Loss").canvas.hovered.emit(50.0)
    memory = run_plots.plot("Device memory")
    assert has_crosshair(memory)
    assert memory.headline.text() == "step 50"
    run_plots.plot("Loss").canvas.hovered.emit(None)
    assert not has_crosshair(memory)
    assert memory.headline.text() == "0.0 GiB peak"
    canvas = run_plots.plot("Loss").canvas
    there = canvas.mapFromScene(canvas.area.mapViewToScene(QPointF(30, 0.5)))
    QTest.mouseMove(canvas.viewport(), there)
    canvas.show_x((20.0, 60.0))
    assert run_plots.crosshair_x == pytest.approx(x_at(canvas, QPointF(canvas.mapToGlobal(there))))
    run_plots.set_crosshair_x(50.0)  # as the keys do
    canvas.show_x((20.0, 80.0))
    assert run_plots.crosshair_x == 50.0


def test_the_wheel_leaves_the_crosshair_below_the_mouse(run_plots: RunPlots) -> None:
    for name in ("train/loss", *(f"validation/metric_{number}" for number in range(6))):
        run_plots.add_points(name, stored_points(STEPS, HALF))
    run_plots.resize(600, 300)
    paint(run_plots)
    loss, grid = run_plots.plot("Loss").canvas, run_plots.visibility.grid
    there = loss.mapFromScene(loss.area.mapViewToScene(QPointF(30, 0.5)))
    QTest.mouseMove(loss.viewport(), there)
    assert run_plots.crosshair_x == pytest.approx(30, abs=1)
    pointer, found = QPointF(loss.mapToGlobal(there)), set()
    run_plots.toolbar.link_x.setChecked(False)
    for number, plot in enumerate(run_plots.plots()):
        plot.canvas.show_x((0, 100 + 10 * number))
    for _ in range(8):
        scroll(grid.viewport(), pointer)
        below = [plot.canvas for plot in run_plots.plots() if plot.canvas.is_under(pointer)]
        x = next((x_at(canvas, pointer) for canvas in below), None)
        assert run_plots.crosshair_x == (None if x is None else pytest.approx(x))
        found.add(x)
    assert None in found, "a title was below the mouse"
    assert len(found) > 2, "and several plots"


def x_at(canvas: Canvas, pointer: QPointF) -> float | None:
    """The position of a place on the screen; None: beside the curves."""
    scene = canvas.mapToScene(canvas.mapFromGlobal(pointer).toPoint())
    if not canvas.area.sceneBoundingRect().contains(scene):
        return None
    return float(canvas.area.mapSceneToView(scene).x())


def scroll(area: QWidget, pointer: QPointF) -> None:
    event = QWheelEvent(
        QPointF(area.mapFromGlobal(pointer)),
        pointer,
        QPoint(),
        QPoint(0, -120),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(area, event)
    QApplication.processEvents()
