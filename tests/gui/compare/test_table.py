"""The table of how several runs differ."""

from __future__ import annotations

from msgspec.structs import replace
from PySide6.QtGui import QGuiApplication

from engine.client import get_run
from engine.messages.events import EpochEnded
from engine.runs.best_metrics import BestFigure
from engine.spec.run_spec import RunSpec
from gui.compare.differences import figure_rows, setting_rows
from tests.gui.compare.conftest import View, cells, curves
from tests.gui.conftest import Record
from tests.support.recorded_runs import record_epochs


def test_only_settings_that_differ_are_listed_by_their_labels() -> None:
    record_epochs("finished", learning_rate=0.1, settings={"width": 64})
    record_epochs("finished", learning_rate=0.2, compile=True)
    rows = {row.label: row.values for row in setting_rows([get_run("1"), get_run("2")])}
    assert rows == {
        "Learning rate": ("0.1", "0.2"),
        "Compile the model": ("no", "yes"),
        "width": ("64", "–"),
    }


def test_the_better_figure_is_marked_and_equal_ones_are_not() -> None:
    for losses in ((0.2, 0.5), (0.3, 0.4)):
        record_epochs("finished", losses)
    infos = [get_run("1"), get_run("2")]
    best = {
        "1": {"validation/loss": BestFigure(0.2, 10)},
        "2": {"validation/loss": BestFigure(0.3, 10)},
    }
    rows = {row.label: row for row in figure_rows(infos, best)}
    assert rows["Val loss, last"].values == ("0.5", "0.4")
    assert rows["Val loss, last"].best == {1}
    assert rows["Val loss, best"].values == ("0.2 @ 10", "0.3 @ 10")
    assert rows["Val loss, best"].best == {0}
    same = {row.label: row for row in figure_rows([infos[0], infos[0]], best)}
    assert not same["Val loss, last"].best


def test_a_run_without_times_has_no_duration_and_a_metric_keeps_its_own_name() -> None:
    record_epochs("finished", (0.5,))
    info = get_run("1")
    untimed = replace(info.status, started=0.0, attempt_started=0.0, metrics={"score": 0.5})
    rows = {row.label: row for row in figure_rows([info, info._replace(status=untimed)], {})}
    assert rows["Duration"].values[1] == "–"
    assert rows["score, last"].values[1] == "0.5"


def test_the_shorter_step_time_is_the_better_one() -> None:
    record_epochs("finished", (0.5,))
    info = get_run("1")
    infos = [
        info._replace(id=name, status=replace(info.status, step_seconds=seconds))
        for name, seconds in zip("abc", (0.05, 1.5, 0.0), strict=True)
    ]
    rows = {row.label: row for row in figure_rows(infos, {})}
    assert rows["Step time"].values == ("50 ms", "1.5 s", "–")
    assert rows["Step time"].best == {0}
    assert "Step time" not in {row.label for row in figure_rows(infos[2:], {})}


def test_figures_that_look_equal_have_a_star_each() -> None:
    """0.20001 is no better than 0.20004 where both are shown as 0.2."""
    record_epochs("finished", (0.5,))
    three = [get_run("1")._replace(id=name) for name in "abc"]
    best = {
        name: {"validation/loss": BestFigure(value, 10)}
        for name, value in zip("abc", (0.20004, 0.3, 0.20001), strict=True)
    }
    rows = {row.label: row for row in figure_rows(three, best)}
    assert rows["Val loss, best"].best == {0, 2}
    rows = {row.label: row for row in figure_rows([three[0], three[2]], best)}
    assert not rows["Val loss, best"].best


def test_the_table_says_so_where_no_setting_differs(view: View) -> None:
    for _ in range(2):
        record_epochs("finished", (0.5,))
    view.compare("1", "2")
    assert "NO SETTING DIFFERS" in cells(view)
    assert cells(view)["State"] == ["finished", "finished"]


def test_device_names_are_short() -> None:
    record_epochs("finished")
    info = get_run("1")
    spec = RunSpec(recipe="digits", strategy="torch/ddp", devices=("cpu:0", "cpu:1"))
    rows = {row.label: row.values for row in setting_rows([info, info._replace(spec=spec)])}
    assert rows["Devices"] == ("1 CPU worker", "2 CPU workers")


def test_the_table_is_copied_for_a_spreadsheet(view: View) -> None:
    for rate, losses in ((0.1, (0.5, 0.4)), (0.2, (0.6, 0.3))):
        record_epochs("finished", losses, learning_rate=rate, name="net")
    view.compare("1", "2")
    table = view.comparison.table
    table.copy.trigger()
    lines = [line.split("\t") for line in QGuiApplication.clipboard().text().splitlines()]
    assert lines[0] == ["", "#1 net", "#2 net"]
    assert ["Val loss, last", "0.4", "0.3"] in lines
    assert ["Learning rate", "0.1", "0.2"] in lines
    table.selectRow(table.model().rowCount() - 1)
    table.copy.trigger()
    assert QGuiApplication.clipboard().text() == "\t#1 net\t#2 net\nLearning rate\t0.1\t0.2"


def test_a_live_run_changes_cells_and_leaves_the_selection(view: View, record: Record) -> None:
    record_epochs("finished", (0.5, 0.4))
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


def test_runs_of_all_kinds_are_compared(view: View, record: Record) -> None:
    record_epochs("finished", tuple(1 / k for k in range(1, 30)))
    record_epochs("failed")
    keras = record(RunSpec(recipe="digits_keras", strategy="tf/mirrored", devices=("cpu:0",)))
    keras.begin()
    keras.add_points("train/loss", range(1, 5))
    view.compare("1", "2", "3")
    assert set(curves(view, "Val loss")) == {"1"}
    assert set(curves(view, "Train loss")) == {"3"}
    assert cells(view)["State"] == ["finished", "failed", "running"]
    assert cells(view)["Val loss, best"][1:] == ["–", "–"]


def test_devices_of_this_machine_have_their_names() -> None:
    record_epochs("finished")
    info = get_run("1")
    spec = RunSpec(recipe="digits", strategy="torch/single", devices=("GPU-00000000-11", "GPU-99"))
    infos = [info, info._replace(spec=spec)]
    rows = {row.label: row.values for row in setting_rows(infos, {"GPU-00000000-11": "GPU 0"})}
    assert rows["Devices"] == ("1 CPU worker", "GPU 0, GPU-99")
