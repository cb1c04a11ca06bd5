"""What a plot shows at first: all of it, whatever was done to the plots before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QSettings
from pytestqt.qtbot import QtBot

from gui.compare.comparison_plots import ComparisonPlots
from gui.plots.data.series_style import LOSS
from gui.plots.data.x_axis import XKind
from gui.plots.panel.run_plots import PlotGrid
from gui.style.theme import DARK
from tests.gui.plots.conftest import in_sight, paint
from tests.gui.points import points_of

STEPS = np.arange(1.0, 101.0)
HIGH = np.linspace(500, 600, 100)


def shows_all(grid: PlotGrid, title: str) -> bool:
    first, last, low, high = in_sight(grid.plot(title))
    return -10 < first < 1 and 100 < last < 110 and 450 < low < 500 and 600 < high < 650


def zoom(grid: PlotGrid) -> None:
    """A zoom by hand, which leaves the steps 40 to 60 in sight."""
    area = grid.plot("Loss").canvas.area
    area.setXRange(40, 60, padding=0)
    area.sigRangeChangedManually.emit([True, True])


@pytest.mark.parametrize("linked", [True, False])
def test_another_run_is_seen_after_a_zoom(grid: PlotGrid, linked: bool) -> None:
    grid.bar.link_x.setChecked(linked)
    grid.add_points("train/loss", points_of(STEPS / 10, HIGH / 10))
    paint(grid)
    zoom(grid)
    grid.clear()
    assert grid.bar.follow.isChecked()
    for series in ("train/loss", "validation/figure", "train/learning_rate"):
        grid.add_points(series, points_of(STEPS, HIGH))
    grid.resize(1000, 1600)
    paint(grid)
    assert all(shows_all(grid, title) for title in ("Loss", "Figure", "Learning rate"))
    grid.add_points("train/loss", points_of(STEPS + 100, HIGH))
    paint(grid)
    assert in_sight(grid.plot("Loss"))[1] > 200, "it follows"


def test_who_does_not_follow_sees_all_of_the_next_run_once(grid: PlotGrid) -> None:
    paint(grid)
    grid.bar.follow.click()
    for _ in range(2):
        paint(grid)  # plots without points have nothing to fit yet
        grid.add_points("train/loss", points_of(STEPS, HIGH))
        grid.add_points("validation/figure", points_of(STEPS, HIGH))
        paint(grid)
        assert shows_all(grid, "Loss")
        assert shows_all(grid, "Figure")
        grid.add_points("train/loss", points_of(STEPS + 100, HIGH))
        paint(grid)
        assert shows_all(grid, "Loss"), "the view is still"
        zoom(grid)
        grid.clear()
        assert not grid.bar.follow.isChecked()


def test_a_window_that_does_not_follow_begins_with_everything(tmp_path: Path, qtbot: QtBot) -> None:
    settings = QSettings(str(tmp_path / "s.ini"), QSettings.Format.IniFormat)
    settings.setValue("plots/follow", False)
    grid = PlotGrid(DARK, settings)
    qtbot.addWidget(grid)
    grid.resize(1000, 700)
    grid.show()
    paint(grid)
    grid.add_points("train/loss", points_of(STEPS, HIGH))
    paint(grid)
    assert shows_all(grid, "Loss")


@pytest.mark.parametrize("kind", [XKind.STEP, XKind.WALL])
def test_a_new_plot_shows_what_the_zoomed_ones_show(grid: PlotGrid, kind: XKind) -> None:
    grid.bar.choose_x(kind)
    times = STEPS if kind is XKind.WALL else None
    grid.add_points("train/loss", points_of(STEPS, HIGH, times))
    paint(grid)
    zoom(grid)
    grid.add_points("train/figure", points_of(STEPS, HIGH, times))
    grid.add_points("device/a/memory", points_of(STEPS, HIGH * 2**30, times))
    paint(grid)
    for title in ("Figure", "Device memory"):
        first, last, _, high = in_sight(grid.plot(title))
        assert (first, last) == (40, 60)
        assert 600 < high < 660
    grid.bar.fit.click()
    paint(grid)
    assert shows_all(grid, "Figure")


def test_a_plot_that_is_zoomed_before_it_is_painted_stays_so(grid: PlotGrid) -> None:
    grid.add_points("train/loss", points_of(STEPS, HIGH))
    zoom(grid)
    paint(grid)
    assert in_sight(grid.plot("Loss"))[:2] == (40, 60)


@pytest.mark.parametrize("chosen", [True, False])
def test_other_runs_are_compared_as_the_user_chose(qtbot: QtBot, chosen: bool) -> None:
    plots = ComparisonPlots(DARK)
    qtbot.addWidget(plots)
    if not chosen:
        plots.bar.follow.click()
    loss = plots.plot_of(LOSS)
    loss.canvas.zoom_x(0.5)
    assert not plots.bar.follow.isChecked()
    plots.begin()
    assert plots.bar.follow.isChecked() is chosen
