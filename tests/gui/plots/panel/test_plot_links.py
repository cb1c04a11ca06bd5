"""Linked plots: which one is repainted, which range they show, and their common crosshair."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from gui.plots.panel.run_plots import RunPlots
from gui.plots.plot.curve_plot import CurvePlot
from tests.gui.plots.conftest import paint
from tests.gui.stored_points import stored_points

STEPS = np.arange(1.0, 101.0)
HALF = np.full(100, 0.5)


def steps_in_sight(plot: CurvePlot) -> tuple[float, float]:
    first, last = plot.canvas.area.viewRange()[0]
    return first, last


def test_one_plot_is_painted_a_tick_and_then_none(
    run_plots: RunPlots, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    noisy = loss.canvas.crosshair.box.text()
    run_plots.toolbar.slider.setValue(999)
    loss.set_crosshair(50)
    assert loss.canvas.crosshair.box.text() != noisy
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


def test_the_crosshair_is_shown_in_all_plots(run_plots: RunPlots) -> None:
    run_plots.add_points("train/loss", stored_points(STEPS, HALF))
    run_plots.add_points("device/a/memory", stored_points(STEPS, HALF))
    paint(run_plots)
    run_plots.plot("Loss").canvas.hovered.emit(50.0)
    assert run_plots.plot("Device memory").canvas.crosshair.box.isVisible()
    run_plots.plot("Loss").canvas.hovered.emit(None)
    assert not run_plots.plot("Device memory").canvas.crosshair.box.isVisible()
