"""Plots together: which one is painted, what steps are in sight, and one crosshair in all."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from gui.plots.panel.run_plots import PlotGrid
from gui.plots.plot.curve_plot import CurvePlot
from tests.gui.plots.conftest import paint
from tests.gui.points import points_of

STEPS = np.arange(1.0, 101.0)
HALF = np.full(100, 0.5)


def steps_in_sight(plot: CurvePlot) -> tuple[float, float]:
    first, last = plot.canvas.area.viewRange()[0]
    return first, last


def test_one_plot_is_painted_a_tick_and_then_none(
    grid: PlotGrid, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid.bar.link_x.setChecked(False)
    paint(grid)
    painted: list[str] = []
    refresh = CurvePlot.refresh

    def watched(plot: CurvePlot) -> bool:
        done = refresh(plot)
        painted.extend([plot.title] * done)
        return done

    monkeypatch.setattr(CurvePlot, "refresh", watched)
    grid.add_points("train/loss", points_of(STEPS, HALF))
    grid.add_points("device/a/utilisation", points_of(STEPS, HALF))
    grid.tick()
    assert len(painted) == 1
    grid.tick()
    assert sorted(painted) == ["Device utilisation", "Loss"]
    grid.tick()
    assert len(painted) == 2


def test_linked_plots_show_the_same_steps(grid: PlotGrid) -> None:
    loss, memory = grid.plot("Loss"), grid.plot("Device memory")
    grid.add_points("train/loss", points_of(STEPS, HALF))
    grid.add_points("device/a/memory", points_of(STEPS[:10], HALF[:10]))
    paint(grid)
    assert steps_in_sight(loss) == steps_in_sight(memory)
    loss.canvas.area.setXRange(20, 40, padding=0)
    loss.canvas.area.sigRangeChangedManually.emit([True, True])
    assert not grid.bar.follow.isChecked()
    assert steps_in_sight(memory) == (20, 40)
    grid.add_points("train/loss", points_of(STEPS + 100, HALF))
    paint(grid)
    assert steps_in_sight(loss) == steps_in_sight(memory) == (20, 40)
    grid.set_follow(True)
    paint(grid)
    assert steps_in_sight(loss) == steps_in_sight(memory)
    assert steps_in_sight(loss)[1] > 200


def test_plots_that_are_not_linked_go_their_own_ways(grid: PlotGrid) -> None:
    loss, memory = grid.plot("Loss"), grid.plot("Device memory")
    grid.bar.link_x.setChecked(False)
    grid.add_points("train/loss", points_of(STEPS, HALF))
    grid.add_points("device/a/memory", points_of(STEPS[:10], HALF[:10]))
    paint(grid)
    own = steps_in_sight(memory)
    assert own[1] < 12
    for linked in (True, False):
        grid.bar.link_x.setChecked(linked)
        paint(grid)
        assert (steps_in_sight(memory) == steps_in_sight(loss)) is linked
    loss.canvas.area.setXRange(20, 40, padding=0)
    loss.canvas.area.sigRangeChangedManually.emit([True, True])
    paint(grid)
    assert grid.bar.follow.isChecked()
    assert steps_in_sight(memory) == own
    loss.canvas.fit_requested.emit()
    paint(grid)
    assert steps_in_sight(loss)[1] > 100


def test_the_bar_rules_all_plots(grid: PlotGrid) -> None:
    rng = np.random.default_rng(0)
    grid.add_points("train/loss", points_of(STEPS, rng.uniform(1, 2, 100)))
    paint(grid)
    loss = grid.plot("Loss")
    grid.bar.slider.setValue(0)
    loss.set_crosshair(50)
    noisy = loss.canvas.crosshair.box.text()
    grid.bar.slider.setValue(999)
    loss.set_crosshair(50)
    assert loss.canvas.crosshair.box.text() != noisy
    QTest.mouseClick(grid.bar.log_y, Qt.MouseButton.LeftButton)
    assert loss.canvas.log_y
    assert not grid.plot("Device utilisation").canvas.log_y
    grid.add_points("validation/top_5", points_of(STEPS, HALF))
    assert grid.plot("Top 5").canvas.log_y
    paint(grid)
    QTest.mouseClick(grid.bar.follow, Qt.MouseButton.LeftButton)
    before = steps_in_sight(loss)
    grid.add_points("train/loss", points_of(STEPS + 100, HALF))
    paint(grid)
    assert steps_in_sight(loss) == before
    QTest.mouseClick(grid.bar.fit, Qt.MouseButton.LeftButton)
    paint(grid)
    assert steps_in_sight(loss)[1] > 200


def test_the_crosshair_stands_in_all_plots(grid: PlotGrid) -> None:
    grid.add_points("train/loss", points_of(STEPS, HALF))
    grid.add_points("device/a/memory", points_of(STEPS, HALF))
    paint(grid)
    grid.plot("Loss").hovered.emit(50.0)
    assert grid.plot("Device memory").canvas.crosshair.box.isVisible()
    grid.plot("Loss").hovered.emit(None)
    assert not grid.plot("Device memory").canvas.crosshair.box.isVisible()
