"""The plots of several runs in the comparison."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
from pytestqt.qtbot import QtBot

from engine.client import get_run
from engine.interface.news.run_curves import is_compared
from engine.interface.values import NotConnected
from engine.runs.run_index import RunIndex
from engine.runs.store.stored_points import StoredPoints
from gui.compare.comparison_plots import RunGroup, comparison_style
from gui.compare.differences import figure_rows
from gui.plots.data.x_axis import XKind, XScale
from gui.plots.plot.curve_plot import CurvePlot
from gui.run_list.chosen_runs import COLOURS
from gui.style.theme import DARK
from tests.gui.compare.conftest import View, curves
from tests.gui.conftest import Record
from tests.support.recorded_runs import record_epochs
from tests.support.sentences import sentence


def test_each_run_has_one_curve_in_its_colour_in_every_plot(view: View) -> None:
    for losses in ((0.5, 0.4), (0.6, 0.3)):
        record_epochs("finished", losses)
    view.compare("2", "1")
    found = curves(view, "Val loss")
    assert {name: curve.colour_index for name, curve in found.items()} == {"2": 0, "1": 1}
    assert found["1"].series.last == 0.4
    assert found["2"].series.last == 0.3


def test_a_removed_run_leaves_every_plot(view: View) -> None:
    for _ in range(3):
        record_epochs("finished", (0.5, 0.4))
    view.compare("1", "2", "3")
    view.comparison.chips.cross("2").click()
    found = curves(view, "Val loss")
    assert {name: curve.colour_index for name, curve in found.items()} == {"1": 0, "3": 2}
    assert view.comparison.table.model().columnCount() == 3


def test_a_finished_run_that_is_chosen_while_others_are_read_is_read_next(view: View) -> None:
    for _ in range(2):
        record_epochs("finished", (0.5, 0.4))
    view.comparison.show_runs(RunIndex().runs())
    view.chosen.choose(["1"])
    assert view.comparison.is_reading
    view.chosen.choose(["1", "2"])
    assert set(curves(view, "Val loss")) == {"1", "2"}
    view.comparison.hide()
    open_files = {Path(file.path).name for file in psutil.Process().open_files()}
    assert "run.sqlite" not in open_files
    view.comparison.show()
    assert set(curves(view, "Val loss")) == {"1", "2"}


def test_the_pinned_run_is_dashed_and_unpinned_again(view: View) -> None:
    for _ in range(2):
        record_epochs("finished", (0.5, 0.4))
    view.compare("1", "2")
    for expected in (True, False):
        view.comparison.chips.pin("2").click()
        found = curves(view, "Val loss")
        assert [found[name].dashed for name in "12"] == [False, expected]
        assert (view.chosen.baseline == "2") is expected
    view.comparison.plots.tick()


def test_the_best_value_of_each_run_has_a_star_in_its_colour(view: View) -> None:
    for losses in ((0.5, 0.3, 0.4), (0.6, 0.2, 0.2), (0.9,)):
        record_epochs("finished", losses)
    view.compare("1", "2")
    plot = view.comparison.plots.plot("Val loss")
    colours = [DARK.curve(number) for number in range(3)]

    def stars() -> list[tuple[float, float, str]]:
        return [star[:3] for star in plot.curves.best_markers(DARK)]

    assert stars() == [(20, 0.3, colours[0]), (20, 0.2, colours[1])]
    assert plot.curves.best_markers(DARK)[1].text == sentence("best-of-digits-at-step-epoch")
    view.compare("1", "2", "3")
    plot.legend.chip("2").toggle()
    assert stars() == [(20, 0.3, colours[0]), (10, 0.9, colours[2])]
    view.comparison.plots.toolbar.x_buttons[XKind.EPOCH].click()
    assert plot.curves.best_markers(DARK)[0].x == 2.0


def test_a_run_may_say_that_more_is_better(view: View) -> None:
    record_epochs("finished", (0.5, 0.3, 0.4), metric_directions={"loss": "max"})
    view.compare("1")
    plot = view.comparison.plots.plot("Val loss")
    assert [star[:2] for star in plot.curves.best_markers(DARK)] == [(10, 0.5)]


def test_a_live_run_grows_and_a_rewound_one_shrinks(view: View, record: Record) -> None:
    live = record()
    live.begin()
    live.add_points("train/loss", [1, 2, 3])
    record_epochs("finished", (0.5,))
    view.compare("1", "2")
    assert len(curves(view, "Train loss")["1"].series) == 3
    live.add_points("train/loss", [4, 5])
    view.read()
    assert len(curves(view, "Train loss")["1"].series) == 5
    live.store.rewind(2)
    live.store.commit()
    view.read()
    assert len(curves(view, "Train loss")["1"].series) == 2


def test_the_mean_of_a_group_follows_its_live_runs(view: View, record: Record) -> None:
    runs = [record(), record()]
    for live in runs:
        live.begin()
        live.add_points("train/loss", [1, 2, 3])
    view.compare("1", "2")
    plots = view.comparison.plots
    view.comparison.show_groups([RunGroup("both", ("1", "2"))])

    def last() -> tuple[float, str]:
        view.read()
        plots.tick()
        assert list(plots.plot("Train loss").curves) == ["group both"]
        plot = plots.plot("Train loss")
        found = plot.curves.readings(None, DARK)
        return found[0].x, found[0].value.partition(" (")[2]

    runs[0].add_points("train/loss", [4, 5])
    assert last() == (5.0, "n = 1 of 2)")
    runs[1].add_points("train/loss", [4, 5])
    assert last() == (5.0, "")
    for live in runs:
        live.store.rewind(2)
        live.store.commit()
    assert last() == (2.0, "")
    view.chosen.toggle("2")
    view.chosen.toggle("1")
    assert not plots.plots()


def test_groups_are_aligned_on_the_axis_of_each_run(view: View) -> None:
    for _ in range(2):
        record_epochs("finished", (0.5, 0.4))
    view.compare("1", "2")
    plots = view.comparison.plots
    view.comparison.show_groups([RunGroup("both", ("1", "2"))])
    plots.tick()
    for kind in (XKind.RELATIVE, XKind.EPOCH):
        plots.toolbar.x_buttons[kind].click()
        plots.tick()
        curve = curves(view, "Val loss")["group both"]
        assert curve.series.x_range() == pytest.approx((1.0, 2.0))
    view.comparison.show_groups([])
    for curve in curves(view, "Val loss").values():
        assert curve.series.x_range() == pytest.approx((1.0, 2.0))


def test_series_that_a_script_has_named_have_plots_of_their_own() -> None:
    names = ("loss", "val/loss", "Loss", "train/loss/generator", "train/loss", "validation/loss")
    titles = [found.plot.title for name in names if (found := comparison_style(name)) is not None]
    assert len(set(titles)) == len(names)


def test_the_curves_of_a_test_are_compared_too() -> None:
    shown = ["train/loss", "test/loss", "val/acc", "reward"]  # also what a script has named
    assert all(is_compared(series) for series in shown)
    hidden = ["device/cpu:0/memory", "device/energy", "rank/0/memory_resident"]
    assert not any(is_compared(series) for series in hidden)
    style = comparison_style("test/loss")
    assert style.plot.title == "test/loss"


def test_metrics_whose_names_differ_have_plots_and_rows_of_their_own() -> None:
    titles = set()
    for name in ("top_5", "top/5", "top 5"):
        for room in ("train", "validation"):
            found = comparison_style(f"{room}/{name}")
            titles.add(found.plot.title)
    assert len(titles) == 6
    record_epochs("finished")
    info = get_run("1")
    metrics = {"validation/top_5": 0.9, "validation/top/5": 0.8}
    info = info._replace(status=msgspec.structs.replace(info.status, metrics=metrics))
    labels = {row.label for row in figure_rows([info], {})}
    assert {"Val top 5, last", "Val top/5, last"} <= labels


def test_the_theme_has_as_many_colours_as_are_told_apart() -> None:
    assert len(DARK.cycle) == COLOURS


def test_a_poll_without_news_styles_nothing(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    """With hundreds of runs it froze the window once a second."""
    for _ in range(2):
        record_epochs("finished", (0.5, 0.25))
    view.compare("1", "2")
    styled: list[str] = []
    scaled: list[str] = []
    monkeypatch.setattr(CurvePlot, "_apply_style", lambda plot, name: styled.append(name))
    original = CurvePlot.set_curve_x_scale

    def set_scale(plot: CurvePlot, name: str, scale: XScale) -> None:
        scaled.append(name)
        original(plot, name, scale)

    monkeypatch.setattr(CurvePlot, "set_curve_x_scale", set_scale)
    view.comparison.show_runs(RunIndex().runs())
    view.read()
    assert (styled, scaled) == ([], [])
    monkeypatch.undo()
    plot = next(iter(view.comparison.plots.plots()))
    names = plot.legend.names()
    assert names == ["1", "2"]
    grown: list[None] = []
    plot.legend.grown.connect(lambda: grown.append(None))
    for name in names:
        plot.set_curve(name)
    assert not grown


def test_zoom_points_are_read_in_the_background(view: View, qtbot: QtBot) -> None:
    record_epochs("finished", (0.5, 0.4, 0.3))
    view.compare("1")
    found: list[StoredPoints] = []
    plot = view.comparison.plots.plot("Val loss")
    view.comparison.plots.zoom_points_wanted.emit("1", "validation/loss", 0.0, 20.0)
    curve = plot.curves["1"]
    curve.set_zoom_points = found.append  # type: ignore[method-assign]
    qtbot.waitUntil(lambda: bool(found))
    assert list(found[0].step) == [10.0, 20.0, 30.0]


def test_a_run_is_read_when_it_is_connected(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    def engine_of(run_id: str) -> Any:
        raise NotConnected("gpus: There is no connection.")

    record_epochs("finished", (0.5, 0.4))
    with monkeypatch.context() as broken:
        broken.setattr(view.comparison._background.machines, "engine_of", engine_of)
        view.compare("1")
        assert not view.comparison.plots.plots()
    assert set(curves(view, "Val loss")) == {"1"}
