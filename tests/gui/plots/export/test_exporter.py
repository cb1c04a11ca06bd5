"""A plot as PNG, SVG and CSV, in a file and in the clipboard."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from engine.runs.run_info import get_run
from engine.runs.store.store_follower import CurveUpdate
from engine.runs.store.stored_points import StoredPoints
from gui.bridge.background import Background
from gui.bridge.machines.machines import Machines
from gui.bridge.store_reader import StoreReader
from gui.compare.comparison_plots import ComparisonPlots
from gui.plots.export.exporter import PlotExport
from gui.plots.panel.run_plots import RunPlots
from gui.plots.plot.curve_plot import CurvePlot
from gui.plots.plot.menu import PlotAction
from gui.plots_controller import PlotsController
from gui.style.theme import DARK
from tests.gui.conftest import SPEC, Patch, Record
from tests.gui.stored_points import stored_points
from tests.support.made_runs import made_run
from tests.support.sentences import sentence


@pytest.fixture
def plot(qtbot: QtBot) -> CurvePlot:
    made = CurvePlot("Loss", theme=DARK)
    qtbot.addWidget(made)
    made.resize(400, 250)
    made.show()
    made.add_points(
        "train", stored_points(np.arange(100.0), np.arange(100.0), 1.7e9 + np.arange(100.0))
    )
    made.refresh()
    return made


@pytest.fixture
def background() -> Iterator[Background]:
    made = Background()
    yield made
    made.finish()


@pytest.fixture
def export(background: Background, tmp_path: Path) -> PlotExport:
    """Saves under the proposed name in a folder of the test."""
    return PlotExport(background, lambda _, __, proposed, ___: str(tmp_path / Path(proposed).name))


def test_pictures_are_sharp_and_without_the_menu(
    export: PlotExport, plot: CurvePlot, tmp_path: Path, qtbot: QtBot
) -> None:
    export.export(PlotAction.SAVE_PNG, plot, ["train/loss"])
    image = QImage(str(tmp_path / "loss.png"))
    assert (image.width(), image.height()) == (1280, 800), "there is room for all names"
    with qtbot.waitSignal(export.message) as said:
        export.export(PlotAction.SAVE_SVG, plot, ["train/loss"])
    assert said.args == [f"Saved as {tmp_path / 'loss.svg'}."]
    assert "<svg" in (tmp_path / "loss.svg").read_text()
    assert plot.header.more.isVisibleTo(plot)
    export.export(PlotAction.COPY_PICTURE, plot, ["train/loss"])
    clipboard = QApplication.clipboard().mimeData()
    assert clipboard.hasImage()
    assert clipboard.hasFormat("image/svg+xml")


def test_a_picture_says_what_it_shows_of_which_run(
    export: PlotExport, plot: CurvePlot, record: Record, tmp_path: Path
) -> None:
    run = record(msgspec.structs.replace(SPEC, name="<b>baseline</b>"))
    run.begin()
    export.watch(run.id)
    export.show_info(get_run(run.id))
    plot.set_smoothing(0.9)
    export.export(PlotAction.SAVE_SVG, plot, ["train/loss"])
    text = (tmp_path / f"{run.id}-loss.svg").read_text()
    for part in ("&lt;b&gt;baseline", f"#{run.id}", ">step<", ">Loss<", ">train<"):
        assert part in text, part
    assert "lines smoothed by 0.90" in text
    assert "<circle" in text, "the dot of the legend is no bitmap"
    assert "<image" not in text


def test_csv_has_every_stored_point(
    export: PlotExport, plot: CurvePlot, record: Record, tmp_path: Path, qtbot: QtBot
) -> None:
    run = record()
    run.begin()
    run.add_points("train/loss", range(1, 25_001))
    run.add_points("validation/loss", [25_000], value=float("nan"))
    export.watch(run.id)
    done = lambda text: "saved" in text  # noqa: E731
    with qtbot.waitSignal(export.message, check_params_cb=done):
        export.export(PlotAction.SAVE_CSV, plot, ["train/loss", "validation/loss"])
    with (tmp_path / f"{run.id}-loss.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 25_001
    assert [int(row["step"]) for row in rows[:25_000]] == list(range(1, 25_001))
    assert float(rows[0]["value"]) == 0.5
    assert rows[-1]["series"] == "validation/loss"
    assert rows[-1]["value"] == "nan"
    with qtbot.waitSignal(export.message):
        export.export(PlotAction.COPY_CSV, plot, ["validation/loss"])
    assert QApplication.clipboard().text().count("\n") == 2


def test_too_many_points_for_the_clipboard_are_reported(
    export: PlotExport, plot: CurvePlot, record: Record, qtbot: QtBot, monkeypatch: Patch
) -> None:
    monkeypatch.setattr("gui.plots.export.exporter.MAX_COPIED_POINTS", 3)
    run = record()
    run.begin()
    run.add_points("train/loss", range(4))
    export.watch(run.id)
    with qtbot.waitSignal(export.message) as said:
        export.export(PlotAction.COPY_CSV, plot, ["train/loss"])
    assert sentence("points-too-many-for-clipboard") in said.args[0]


def test_a_folder_that_cannot_be_written_is_reported(
    background: Background, plot: CurvePlot, tmp_path: Path, qtbot: QtBot
) -> None:
    export = PlotExport(background, lambda *_: str(tmp_path / "nowhere" / "loss.svg"))
    with qtbot.waitSignal(export.message) as said:
        export.export(PlotAction.SAVE_SVG, plot, ["train/loss"])
    assert "could not be written to" in said.args[0]


def test_runs_are_columns_in_a_csv_of_the_comparison(
    export: PlotExport, plot: CurvePlot, record: Record, tmp_path: Path, qtbot: QtBot
) -> None:
    for count in (3, 5):
        run = record()
        run.begin()
        run.add_points("train/loss", range(1, count + 1), value=count / 10)
    names = {"1": "#1 a, b", "2": "#2 b"}
    done = lambda text: "saved" in text  # noqa: E731
    with qtbot.waitSignal(export.message, check_params_cb=done) as said:
        export.export_runs(PlotAction.SAVE_CSV, plot, "train/loss", names)
    assert said.args[0].startswith("8 points")
    with (tmp_path / "1-2-loss.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    heads = ("step", "unix_time", "train/loss")
    assert rows[0] == [f"{name} {head}" for name in names.values() for head in heads]
    assert len(rows) == 6
    assert (rows[3][0], rows[3][2], rows[3][3], rows[3][5]) == ("3", "0.3", "3", "0.5")
    assert rows[5][:3] == ["", "", ""]
    assert rows[5][3] == "5"
    with qtbot.waitSignal(export.message):
        export.export_runs(PlotAction.SAVE_PNG, plot, "train/loss", names)
    assert (tmp_path / "1-2-loss.png").exists()
    with qtbot.waitSignal(export.message) as said:
        export.export_runs(PlotAction.COPY_CSV, plot, "train/loss", {})
    assert said.args == [sentence("plot-of-loss-has-no-data")]


def test_every_entry_of_a_menu_in_the_comparison_exports_all_its_runs(qtbot: QtBot) -> None:
    compared = ComparisonPlots(DARK)
    qtbot.addWidget(compared)
    compared.show_runs([made_run(7), made_run(8)], {"7": 0, "8": 1}, None)
    points = StoredPoints(np.arange(3.0), np.arange(3.0), np.arange(3.0), 3)
    for run_id in ("7", "8"):
        compared.add_points(run_id, CurveUpdate("validation/loss", points, True))
    plot = compared.plot("Val loss")
    for action in (action for action in PlotAction if action.is_export):
        with qtbot.waitSignal(compared.export_wanted) as asked:
            plot.header.menu.entries[action].trigger()
        assert asked.args == [action, plot, "validation/loss", {"7": "#7 digits", "8": "#8 digits"}]


def test_the_comparison_is_connected_and_fitted_while_it_is_seen(
    background: Background, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[object, ...]] = []
    monkeypatch.setattr(PlotExport, "export_runs", lambda _, *args: asked.append(args))
    run_plots, compared = RunPlots(DARK), ComparisonPlots(DARK)
    for widget in (run_plots, compared):
        qtbot.addWidget(widget)
    controller = PlotsController(run_plots, compared, StoreReader(Machines()), background)
    compared.export_wanted.emit(PlotAction.COPY_CSV, None, "train/loss", {"7": "#7"})
    assert asked == [(PlotAction.COPY_CSV, None, "train/loss", {"7": "#7"})]
    fitted: list[str] = []
    monkeypatch.setattr(run_plots, "fit", lambda: fitted.append("run"))
    monkeypatch.setattr(compared, "fit", lambda: fitted.append("comparison"))
    controller.fit()
    compared.show()
    controller.fit()
    assert fitted == ["run", "comparison"]
