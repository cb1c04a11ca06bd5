"""Several runs over each other, and the table of how they differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from PySide6.QtCore import QPoint, QSettings, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from engine.best_figures import BestFigure
from engine.client import look
from engine.events import EpochEnded
from engine.run_index import RunIndex
from engine.spec import RunSpec
from engine.store_reader import StoredPoints
from gui.background import Background
from gui.compare.chosen import MOST, ChosenRuns
from gui.compare.comparison import Comparison
from gui.compare.differences import figure_rows, setting_rows
from gui.compare.places import place
from gui.plots.plot_grid import PlotGrid
from gui.plots.x_scale import XKind
from gui.theme import DARK, ThemeController
from tests.engine.written_runs import write_run


class View(NamedTuple):
    """The comparison, and the choice behind it."""

    chosen: ChosenRuns
    comparison: Comparison

    def compare(self, *run_ids: str) -> None:
        self.comparison.show_runs(RunIndex().runs())
        self.chosen.choose(run_ids)
        self.comparison.poll()


@pytest.fixture
def view(qtbot: QtBot, qapp: QApplication) -> Iterator[View]:
    chosen = ChosenRuns()
    comparison = Comparison(chosen, ThemeController(qapp).current)
    qtbot.addWidget(comparison)
    comparison.resize(900, 700)
    comparison.show()
    yield View(chosen, comparison)
    comparison.hide()


def curves(view: View, title: str) -> dict[str, Any]:
    plot = view.comparison.plots.plot(title)
    return {name: plot.curves[name] for name in plot.curve_names()}


def cells(view: View) -> dict[str, list[str]]:
    table = view.comparison.table
    found = {}
    for row in range(table.rowCount()):
        texts = [
            item.text() if (item := table.item(row, column)) else ""
            for column in range(table.columnCount())
        ]
        found[texts[0]] = texts[1:]
    return found


def test_each_run_has_one_curve_in_its_colour_in_every_plot(view: View) -> None:
    for losses in ((0.5, 0.4), (0.6, 0.3)):
        write_run("finished", losses)
    view.compare("2", "1")
    found = curves(view, "Validation loss")
    assert {name: curve.colour_index for name, curve in found.items()} == {"2": 0, "1": 1}
    assert found["1"].series.last == 0.4
    assert found["2"].series.last == 0.3


def test_the_pinned_run_is_dashed_and_unpinned_again(view: View) -> None:
    for _ in range(2):
        write_run("finished", (0.5, 0.4))
    view.compare("1", "2")
    for expected in (True, False):
        view.comparison.chips.pin("2").click()
        found = curves(view, "Validation loss")
        assert [found[name].dashed for name in "12"] == [False, expected]
        style = found["2"]._thick.style()
        assert (style is Qt.PenStyle.CustomDashLine) is expected
        assert (view.chosen.baseline == "2") is expected
    view.comparison.plots.tick()


def test_the_best_value_of_each_run_has_a_star_in_its_colour(view: View) -> None:
    for losses in ((0.5, 0.3, 0.4), (0.6, 0.2, 0.2), (0.9,)):
        write_run("finished", losses)
    view.compare("1", "2")
    plot = view.comparison.plots.plot("Validation loss")
    colours = [DARK.curve(number) for number in range(3)]

    def stars() -> list[tuple[float, float, str]]:
        return [star[:3] for star in plot.curves.stars(DARK)]

    assert stars() == [(20, 0.3, colours[0]), (20, 0.2, colours[1])]
    assert plot.curves.stars(DARK)[1].text == "Best of #2 digits: 0.2 at step 20 · epoch 2.0"
    view.compare("1", "2", "3")
    plot.legend.chip("2").toggle()
    assert stars() == [(20, 0.3, colours[0]), (10, 0.9, colours[2])]
    view.comparison.plots.bar.x_buttons[XKind.EPOCH].click()
    assert plot.curves.stars(DARK)[0].x == 2.0


def test_the_stars_are_painted_and_go_with_their_runs(view: View) -> None:
    for losses in ((0.5, 0.3, 0.4), (0.6, 0.2, 0.25)):
        write_run("finished", losses)
    view.comparison.set_theme(DARK)
    view.compare("1", "2")
    plot = view.comparison.plots.plot("Validation loss")
    painted: list[list[str]] = []
    for name in ("1", "2"):
        plot.refresh()
        spots = plot.canvas._stars.points()
        painted.append([spot.brush().color().name() for spot in spots])
        plot.legend.chip(name).toggle()
    plot.refresh()
    painted.append(list(plot.canvas._stars.points()))
    assert painted == [[DARK.curve(0), DARK.curve(1)], [DARK.curve(1)], []]


def test_a_live_run_grows_and_a_rewound_one_shrinks(view: View, record: Callable[..., Any]) -> None:
    live = record()
    live.begin()
    live.add_points("train/loss", [1, 2, 3])
    write_run("finished", (0.5,))
    view.compare("1", "2")
    assert len(curves(view, "Training loss")["1"].series) == 3
    live.add_points("train/loss", [4, 5])
    view.comparison.poll()
    assert len(curves(view, "Training loss")["1"].series) == 5
    live.store.rewind(2)
    live.store.commit()
    view.comparison.poll()
    assert len(curves(view, "Training loss")["1"].series) == 2


def test_a_run_that_is_taken_out_leaves_every_plot(view: View) -> None:
    for _ in range(3):
        write_run("finished", (0.5, 0.4))
    view.compare("1", "2", "3")
    view.comparison.chips.cross("2").click()
    found = curves(view, "Validation loss")
    assert {name: curve.colour_index for name, curve in found.items()} == {"1": 0, "3": 2}
    assert view.comparison.table.columnCount() == 3


def begin_live(record: Callable[..., Any]) -> None:
    """A run with two plots."""
    live = record()
    live.begin()
    for series in ("train/loss", "validation/loss"):
        live.add_points(series, [10, 20, 30])


def zoomed_in(view: View) -> tuple[list[float], list[float]]:
    """The first plot's view, after a zoom by hand."""
    view.comparison.plots.plot("Validation loss").canvas.zoom_x(0.5)
    return in_sight(view)


def in_sight(view: View) -> tuple[list[float], list[float]]:
    QApplication.processEvents()
    plots = view.comparison.plots
    for _ in range(2 * len(plots.plots())):
        plots.tick()
    places, values = plots.plot("Validation loss").canvas.area.viewRange()
    return places, values


def test_taking_runs_out_and_in_leaves_the_view_as_it_is(
    view: View, record: Callable[..., Any]
) -> None:
    begin_live(record)
    for number in range(3):
        write_run("finished", (0.5, 0.4, 0.3 - number / 20))
    view.compare("1", "2", "3")
    before = in_sight(view)
    plots = view.comparison.plots
    plots.placement.move("Validation loss", "Training loss")
    order = [plot.title for plot in plots.plots()]
    plots.placement.hide("Training loss")
    plots.bar.log_y.click()
    plots.bar.slider.setValue(333)
    plots.plot("Validation loss").legend.chip("1").toggle()
    zoomed = zoomed_in(view)
    assert zoomed != before
    view.comparison.chips.cross("2").click()
    assert in_sight(view) == zoomed
    view.chosen.toggle("4")
    assert in_sight(view) == zoomed
    assert set(curves(view, "Validation loss")) == {"1", "3", "4"}
    assert not curves(view, "Validation loss")["1"].visible
    assert [plot.title for plot in plots.plots()] == order
    assert not plots.plot("Training loss").isVisible()
    assert plots.bar.log_y.isChecked()
    assert not plots.bar.follow.isChecked()
    assert plots.bar.smoothing == 0.333
    view.chosen.choose([])
    view.chosen.choose(["1", "2"])
    assert plots.bar.follow.isChecked(), "who compares anew sees everything"
    assert in_sight(view)[0] == before[0]


def test_a_look_at_the_single_run_leaves_the_comparison_as_it_is(view: View) -> None:
    for _ in range(3):
        write_run("finished", (0.5, 0.4, 0.3))
    view.compare("1", "2", "3")
    in_sight(view)
    zoomed = zoomed_in(view)
    view.comparison.hide()
    view.chosen.toggle("3")
    view.comparison.show()
    assert in_sight(view) == zoomed
    assert set(curves(view, "Validation loss")) == {"1", "2"}
    assert len(curves(view, "Validation loss")["1"].series) == 3


def test_a_plot_of_one_run_goes_with_it_and_the_others_come_back(
    view: View, record: Callable[..., Any]
) -> None:
    live = record()
    live.begin()
    live.add_points("train/gradient_norm", [1, 2, 3])
    write_run("finished", (0.5, 0.4))
    view.compare("1", "2")
    plots = view.comparison.plots
    plots.plot("Gradient norm").header.double_clicked.emit()
    assert not plots.plot("Validation loss").isVisible()
    view.chosen.toggle("1")
    assert [plot.title for plot in plots.plots()] == ["Validation loss"]
    assert plots.plot("Validation loss").isVisible()


def test_the_arrangement_is_found_as_it_was_left(
    qtbot: QtBot, tmp_path: Path, record: Callable[..., Any]
) -> None:
    begin_live(record)
    write_run("finished", (0.5, 0.4))

    def opened() -> View:
        settings = QSettings(str(tmp_path / "s.ini"), QSettings.Format.IniFormat)
        grid = PlotGrid(DARK, settings)
        qtbot.addWidget(grid)
        assert (grid.bar.smoothing, grid.bar.x_kind) == (0.9, XKind.STEP), "a room of its own"
        chosen = ChosenRuns()
        comparison = Comparison(chosen, DARK, settings)
        qtbot.addWidget(comparison)
        comparison.resize(900, 700)
        comparison.show()
        view = View(chosen, comparison)
        view.compare("1", "2")
        return view

    def arrangement(view: View) -> tuple[object, ...]:
        plots = view.comparison.plots
        return (
            [(plot.title, plot.isVisible()) for plot in plots.plots()],
            (plots.bar.log_y.isChecked(), plots.bar.smoothing, plots.bar.x_kind),
            view.comparison._splitter.sizes(),
        )

    first = opened()
    plots, splitter = first.comparison.plots, first.comparison._splitter
    untouched = arrangement(first)
    plots.placement.move("Validation loss", "Training loss")
    plots.placement.hide("Training loss")
    plots.bar.log_y.click()
    plots.bar.slider.setValue(333)
    plots.bar.x_buttons[XKind.EPOCH].click()
    splitter.moveSplitter(splitter.sizes()[0] + 40, 1)
    left = arrangement(first)
    assert all(one != other for one, other in zip(left, untouched, strict=True))
    second = opened()
    assert arrangement(second) == left
    assert curves(second, "Validation loss")["2"].series.x_range() == (1.0, 2.0)
    second.comparison.reset_layout()
    assert arrangement(second) == untouched
    assert arrangement(opened()) == untouched


def test_time_is_counted_from_the_beginning_of_each_run(view: View) -> None:
    for _ in range(2):
        write_run("finished", (0.5, 0.4))
    view.compare("1", "2")
    view.comparison.plots.bar.x_buttons[XKind.RELATIVE].click()
    for curve in curves(view, "Validation loss").values():
        assert curve.series.x_range() == pytest.approx((1.0, 2.0))
    view.comparison.plots.bar.x_buttons[XKind.EPOCH].click()
    for curve in curves(view, "Validation loss").values():
        assert curve.series.x_range() == pytest.approx((1.0, 2.0))


def test_only_settings_that_differ_are_listed_by_their_labels() -> None:
    write_run("finished", learning_rate=0.1, settings={"width": 64})
    write_run("finished", learning_rate=0.2, compile=True)
    rows = {row.label: row.values for row in setting_rows([look("1"), look("2")])}
    assert rows == {
        "Learning rate": ("0.1", "0.2"),
        "Compile": ("no", "yes"),
        "width": ("64", "–"),
    }


def test_the_better_figure_is_marked_and_equal_ones_are_not() -> None:
    for losses in ((0.2, 0.5), (0.3, 0.4)):
        write_run("finished", losses)
    infos = [look("1"), look("2")]
    best = {
        "1": {"validation/loss": BestFigure(0.2, 10)},
        "2": {"validation/loss": BestFigure(0.3, 10)},
    }
    rows = {row.label: row for row in figure_rows(infos, best)}
    assert rows["Loss (val), last"].values == ("0.5", "0.4")
    assert rows["Loss (val), last"].best == {1}
    assert rows["Loss (val), best"].values == ("0.2 @ 10", "0.3 @ 10")
    assert rows["Loss (val), best"].best == {0}
    same = {row.label: row for row in figure_rows([infos[0], infos[0]], best)}
    assert not same["Loss (val), last"].best


def test_the_table_says_so_where_no_setting_differs(view: View) -> None:
    for _ in range(2):
        write_run("finished", (0.5,))
    view.compare("1", "2")
    assert "NO SETTING DIFFERS" in cells(view)
    assert cells(view)["State"] == ["finished", "finished"]


def test_hidden_it_holds_no_file_open(view: View) -> None:
    for _ in range(2):
        write_run("finished", (0.5,))
    view.compare("1", "2")
    tails = list(view.comparison._tails.values())
    view.comparison.hide()
    assert all(tail._reader is None for tail in tails)
    view.comparison.show()
    assert set(curves(view, "Validation loss")) == {"1", "2"}


def test_training_and_validation_have_plots_of_their_own() -> None:
    titles = {}
    for series in ("train/loss", "validation/loss", "train/accuracy", "validation/accuracy"):
        found = place(series)
        assert found is not None
        titles[series] = found.plot.title
    assert len(set(titles.values())) == 4
    assert place("nonsense") is None


def test_metrics_whose_names_differ_have_plots_and_rows_of_their_own() -> None:
    titles = set()
    for name in ("top_5", "top/5", "top 5"):
        for room in ("train", "validation"):
            found = place(f"{room}/{name}")
            assert found is not None
            titles.add(found.plot.title)
    assert len(titles) == 6
    write_run("finished")
    info = look("1")
    metrics = {"validation/top_5": 0.9, "validation/top/5": 0.8}
    info = info._replace(status=msgspec.structs.replace(info.status, metrics=metrics))
    labels = {row.label for row in figure_rows([info], {})}
    assert {"Top 5 (val), last", "Top/5 (val), last"} <= labels


def test_there_are_as_many_colours_as_runs_to_compare() -> None:
    assert len(DARK.cycle) == MOST


def test_devices_are_said_briefly() -> None:
    write_run("finished")
    info = look("1")
    spec = RunSpec(recipe="digits", strategy="torch/ddp", devices=("cpu:0", "cpu:1"))
    rows = {row.label: row.values for row in setting_rows([info, info._replace(spec=spec)])}
    assert rows["Devices"] == ("1 CPU worker", "2 CPU workers")


def test_the_table_is_copied_for_a_spreadsheet(view: View) -> None:
    for rate, losses in ((0.1, (0.5, 0.4)), (0.2, (0.6, 0.3))):
        write_run("finished", losses, learning_rate=rate, name="net")
    view.compare("1", "2")
    table = view.comparison.table
    table.copy.trigger()
    lines = [line.split("\t") for line in QGuiApplication.clipboard().text().splitlines()]
    assert lines[0] == ["", "#1 net", "#2 net"]
    assert ["Loss (val), last", "0.4", "0.3"] in lines
    assert ["Learning rate", "0.1", "0.2"] in lines
    table.selectRow(table.rowCount() - 1)
    table.copy.trigger()
    assert QGuiApplication.clipboard().text() == ("\t#1 net\t#2 net\nLearning rate\t0.1\t0.2\n")


def test_a_live_run_changes_cells_and_leaves_the_selection(
    view: View, record: Callable[..., Any]
) -> None:
    write_run("finished", (0.5, 0.4))
    live = record()
    live.begin()
    view.compare("1", "2")
    table = view.comparison.table
    table.selectRow(1)
    live.add(EpochEnded(1, 10, {"validation/loss": 0.2}))
    view.compare("1", "2")
    assert cells(view)["Epoch"][1] == "1 of 2"
    assert cells(view)["Step"][1] == "10"
    assert [index.row() for index in table.selectionModel().selectedRows()] == [1]


def test_runs_of_all_kinds_stand_side_by_side(view: View, record: Callable[..., Any]) -> None:
    write_run("finished", tuple(1 / k for k in range(1, 30)))
    write_run("failed")
    keras = record(RunSpec(recipe="digits_keras", strategy="tf/mirrored", devices=("cpu:0",)))
    keras.begin()
    keras.add_points("train/loss", range(1, 5))
    view.compare("1", "2", "3")
    assert set(curves(view, "Validation loss")) == {"1"}
    assert set(curves(view, "Training loss")) == {"3"}
    assert cells(view)["State"] == ["finished", "failed", "running"]
    assert cells(view)["Loss (val), best"][1:] == ["–", "–"]


def test_devices_of_this_machine_have_their_names() -> None:
    write_run("finished")
    info = look("1")
    spec = RunSpec(recipe="digits", strategy="torch/single", devices=("GPU-00000000-11", "GPU-99"))
    infos = [info, info._replace(spec=spec)]
    rows = {row.label: row.values for row in setting_rows(infos, {"GPU-00000000-11": "GPU 0"})}
    assert rows["Devices"] == ("1 CPU worker", "GPU 0, GPU-99")


def test_many_chips_go_on_in_another_line(view: View) -> None:
    for _ in range(MOST):
        write_run("finished", (0.5,), name="a name of some length")
    ids = [str(number) for number in range(1, MOST + 1)]
    view.compare(*ids)
    chips = view.comparison.chips
    QApplication.processEvents()
    tops = {chips.cross(run_id).mapTo(chips, QPoint()).y() for run_id in ids}
    assert len(tops) > 1
    for run_id in ids:
        cross = chips.cross(run_id)
        assert chips.rect().contains(cross.rect().translated(cross.mapTo(chips, QPoint())))


def test_finer_points_are_read_in_the_background(view: View, qtbot: QtBot) -> None:
    write_run("finished", (0.5, 0.4, 0.3))
    background = Background(view.comparison)
    view.comparison.furnish(background)
    view.compare("1")
    found: list[StoredPoints] = []
    plot = view.comparison.plots.plot("Validation loss")
    view.comparison.plots.finer_wanted.emit("1", "validation/loss", 0.0, 20.0)
    curve = plot.curves["1"]
    curve.set_finer = found.append  # type: ignore[method-assign]
    qtbot.waitUntil(lambda: bool(found), timeout=20_000)
    assert list(found[0].step) == [10.0, 20.0, 30.0]
    background.finish()
