"""A plot shows all of its points at first, whatever was done to the plots before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QSettings
from pytestqt.qtbot import QtBot

from gui.compare.comparison_plots import ComparisonPlots
from gui.plots.data.series_style import LOSS
from gui.plots.data.x_axis import XKind
from gui.plots.panel.run_plots import RunPlots
from gui.style.theme import DARK
from tests.gui.plots.conftest import in_sight, paint
from tests.gui.stored_points import stored_points

STEPS = np.arange(1.0, 101.0)
HIGH = np.linspace(500, 600, 100)


def shows_all(run_plots: RunPlots, title: str) -> bool:
    first, last, low, high = in_sight(run_plots.plot(title))
    return -10 < first < 1 and 100 < last < 110 and 450 < low < 500 and 600 < high < 650


def zoom(run_plots: RunPlots) -> None:
    """A zoom by hand that shows the steps 40 to 60."""
    area = run_plots.plot("Loss").canvas.area
    area.setXRange(40, 60, padding=0)
    area.sigRangeChangedManually.emit([True, True])


@pytest.mark.parametrize("linked", [True, False])
def test_another_run_is_seen_after_a_zoom(run_plots: RunPlots, linked: bool) -> None:
    run_plots.toolbar.link_x.setChecked(linked)
    run_plots.add_points("train/loss", stored_points(STEPS / 10, HIGH / 10))
    paint(run_plots)
    zoom(run_plots)
    run_plots.clear()
    assert run_plots.toolbar.follow.isChecked()
    for series in ("train/loss", "validation/figure", "train/learning_rate"):
        run_plots.add_points(series, stored_points(STEPS, HIGH))
    run_plots.resize(1000, 1600)
    paint(run_plots)
    assert all(shows_all(run_plots, title) for title in ("Loss", "Figure", "Learning rate"))
    run_plots.add_points("train/loss", stored_points(STEPS + 100, HIGH))
    paint(run_plots)
    assert in_sight(run_plots.plot("Loss"))[1] > 200, "it follows"


def test_without_follow_all_of_the_next_run_is_shown_once(run_plots: RunPlots) -> None:
    paint(run_plots)
    run_plots.toolbar.follow.click()
    for _ in range(2):
        paint(run_plots)  # plots without points have nothing to fit yet
        run_plots.add_points("train/loss", stored_points(STEPS, HIGH))
        run_plots.add_points("validation/figure", stored_points(STEPS, HIGH))
        paint(run_plots)
        assert shows_all(run_plots, "Loss")
        assert shows_all(run_plots, "Figure")
        run_plots.add_points("train/loss", stored_points(STEPS + 100, HIGH))
        paint(run_plots)
        assert shows_all(run_plots, "Loss"), "the view is still"
        zoom(run_plots)
        run_plots.clear()
        assert not run_plots.toolbar.follow.isChecked()


def test_a_window_that_does_not_follow_begins_with_everything(tmp_path: Path, qtbot: QtBot) -> None:
    settings = QSettings(str(tmp_path / "s.ini"), QSettings.Format.IniFormat)
    settings.setValue("plots/follow", False)
    run_plots = RunPlots(DARK, settings)
    qtbot.addWidget(run_plots)
    run_plots.resize(1000, 700)
    run_plots.show()
    paint(run_plots)
    run_plots.add_points("train/loss", stored_points(STEPS, HIGH))
    paint(run_plots)
    assert shows_all(run_plots, "Loss")


@pytest.mark.parametrize("kind", [XKind.STEP, XKind.WALL])
def test_a_new_plot_shows_what_the_zoomed_ones_show(run_plots: RunPlots, kind: XKind) -> None:
    run_plots.toolbar.choose_x(kind)
    times = STEPS if kind is XKind.WALL else None
    run_plots.add_points("train/loss", stored_points(STEPS, HIGH, times))
    paint(run_plots)
    zoom(run_plots)
    run_plots.add_points("train/figure", stored_points(STEPS, HIGH, times))
    run_plots.add_points("device/a/memory", stored_points(STEPS, HIGH * 2**30, times))
    paint(run_plots)
    for title in ("Figure", "Device memory"):
        first, last, low, high = in_sight(run_plots.plot(title))
        assert (first, last) == (40, 60)
        assert 560 < high < 600, "the highest value in sight, and not that of everything"
        assert (540 > low > 500) if title == "Figure" else low < 0, "memory begins at 0"
    run_plots.toolbar.fit.click()
    paint(run_plots)
    assert shows_all(run_plots, "Figure")


def test_a_plot_that_is_zoomed_before_it_is_painted_stays_so(run_plots: RunPlots) -> None:
    run_plots.add_points("train/loss", stored_points(STEPS, HIGH))
    zoom(run_plots)
    paint(run_plots)
    assert in_sight(run_plots.plot("Loss"))[:2] == (40, 60)


@pytest.mark.parametrize("chosen", [True, False])
def test_other_runs_are_compared_as_the_user_chose(qtbot: QtBot, chosen: bool) -> None:
    plots = ComparisonPlots(DARK)
    qtbot.addWidget(plots)
    if not chosen:
        plots.toolbar.follow.click()
    loss = plots.plot_of(LOSS)
    loss.canvas.zoom_x(0.5)
    assert not plots.toolbar.follow.isChecked()
    plots.begin()
    assert plots.toolbar.follow.isChecked() is chosen
