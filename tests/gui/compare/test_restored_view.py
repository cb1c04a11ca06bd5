"""What the comparison keeps while runs come and go, and at the next start of the window."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QSettings
from pytestqt.qtbot import QtBot

from gui.bridge.background import Background
from gui.compare.comparison import Comparison
from gui.plots.data.x_axis import XKind
from gui.plots.panel.run_plots import RunPlots
from gui.run_list.chosen_runs import ChosenRuns
from gui.style.theme import DARK
from tests.gui.compare.conftest import View, begin_live, curves, in_sight, zoomed_in
from tests.gui.conftest import Record
from tests.support.recorded_runs import record_epochs


def test_taking_runs_out_and_in_leaves_the_view_as_it_is(view: View, record: Record) -> None:
    begin_live(record)
    for number in range(3):
        record_epochs("finished", (0.5, 0.4, 0.3 - number / 20))
    view.compare("1", "2", "3")
    before = in_sight(view)
    plots = view.comparison.plots
    plots.visibility.move("Val loss", "Train loss")
    order = [plot.title for plot in plots.plots()]
    plots.visibility.hide("Train loss")
    plots.toolbar.log_y.click()
    plots.toolbar.slider.setValue(333)
    plots.plot("Val loss").legend.chip("1").toggle()
    zoomed = zoomed_in(view)
    assert zoomed != before
    view.comparison.chips.cross("2").click()
    assert in_sight(view) == zoomed
    view.chosen.toggle("4")
    assert in_sight(view) == zoomed
    assert set(curves(view, "Val loss")) == {"1", "3", "4"}
    assert not curves(view, "Val loss")["1"].visible
    assert [plot.title for plot in plots.plots()] == order
    assert not plots.plot("Train loss").isVisible()
    assert plots.toolbar.log_y.isChecked()
    assert not plots.toolbar.follow.isChecked()
    assert plots.toolbar.smoothing == 0.333
    view.chosen.choose([])
    view.chosen.choose(["1", "2"])
    assert plots.toolbar.follow.isChecked(), "who compares anew sees everything"
    assert in_sight(view)[0] == before[0]


def test_a_look_at_the_single_run_leaves_the_comparison_as_it_is(view: View) -> None:
    for _ in range(3):
        record_epochs("finished", (0.5, 0.4, 0.3))
    view.compare("1", "2", "3")
    in_sight(view)
    zoomed = zoomed_in(view)
    view.comparison.hide()
    view.chosen.toggle("3")
    view.comparison.show()
    assert in_sight(view) == zoomed
    assert set(curves(view, "Val loss")) == {"1", "2"}
    assert len(curves(view, "Val loss")["1"].series) == 3


def test_the_only_plot_of_a_run_is_removed_with_it(view: View, record: Record) -> None:
    live = record()
    live.begin()
    live.add_points("train/gradient_norm", [1, 2, 3])
    record_epochs("finished", (0.5, 0.4))
    view.compare("1", "2")
    plots = view.comparison.plots
    plots.plot("Gradient norm").header.double_clicked.emit()
    assert not plots.plot("Val loss").isVisible()
    view.chosen.toggle("1")
    assert [plot.title for plot in plots.plots()] == ["Val loss"]
    assert plots.plot("Val loss").isVisible()


def test_the_arrangement_is_found_as_it_was(qtbot: QtBot, tmp_path: Path, record: Record) -> None:
    begin_live(record)
    record_epochs("finished", (0.5, 0.4))

    background = Background()
    views: list[View] = []

    def opened() -> View:
        settings = QSettings(str(tmp_path / "s.ini"), QSettings.Format.IniFormat)
        grid = RunPlots(DARK, settings)
        qtbot.addWidget(grid)
        assert (grid.toolbar.smoothing, grid.toolbar.x_kind) == (0.0, XKind.STEP), (
            "a room of its own"
        )
        chosen = ChosenRuns()
        comparison = Comparison(chosen, background, DARK, settings)
        qtbot.addWidget(comparison)
        comparison.resize(900, 700)
        comparison.show()
        view = View(chosen, comparison)
        views.append(view)
        view.compare("1", "2")
        return view

    def arrangement(view: View) -> tuple[object, ...]:
        plots = view.comparison.plots
        return (
            [(plot.title, plot.isVisible()) for plot in plots.plots()],
            (plots.toolbar.log_y.isChecked(), plots.toolbar.smoothing, plots.toolbar.x_kind),
            view.comparison._parts.sizes(),
        )

    first = opened()
    plots, splitter = first.comparison.plots, first.comparison._parts
    untouched = arrangement(first)
    plots.visibility.move("Val loss", "Train loss")
    plots.visibility.hide("Train loss")
    plots.toolbar.log_y.click()
    plots.toolbar.slider.setValue(333)
    plots.toolbar.x_buttons[XKind.EPOCH].click()
    splitter.moveSplitter(splitter.sizes()[0] + 40, 1)
    left = arrangement(first)
    assert all(one != other for one, other in zip(left, untouched, strict=True))
    second = opened()
    assert arrangement(second) == left
    assert curves(second, "Val loss")["2"].series.x_range() == (1.0, 2.0)
    second.comparison.reset_layout()
    assert arrangement(second) == untouched
    assert arrangement(opened()) == untouched
    for view in views:
        view.comparison.hide()
    background.finish()
