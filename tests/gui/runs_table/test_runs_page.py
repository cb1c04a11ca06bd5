"""The page with all runs, with runs that are made in memory."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QSettings, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from engine.runs.run_index import RunIndex
from engine.runs.run_info import RunInfo, UnreadableRun
from engine.runs.run_state import RunState
from engine.runs.table.columns import columns_of
from gui.bridge.background import Background
from gui.compare.comparison import Comparison
from gui.run_list.chosen_runs import ChosenRuns
from gui.runs_table.arrangement import GroupRow
from gui.runs_table.runs_page import RunsPage, run_groups
from gui.style.theme import DARK
from tests.support.made_runs import made_run
from tests.support.recorded_runs import record_epochs
from tests.support.sentences import sentence

SHIFT, CONTROL = Qt.KeyboardModifier.ShiftModifier, Qt.KeyboardModifier.ControlModifier


class Page:
    """The page and its parts."""

    def __init__(self, qtbot: QtBot, settings: QSettings | None = None) -> None:
        self.background = Background()
        self.chosen = ChosenRuns(settings)
        comparison = Comparison(self.chosen, self.background, DARK)
        self.page = RunsPage(self.chosen, comparison, self.background, DARK, settings)
        qtbot.addWidget(self.page)
        self.page.resize(1200, 700)
        self.page.show()
        self.table = self.page.table

    def show(self, runs: list[RunInfo]) -> None:
        self.page.show_runs(runs)
        self.settle()

    def settle(self) -> None:
        """Wait until the table shows what was asked for."""
        deadline = time.monotonic() + 60.0
        while self.page.is_arranging:
            assert time.monotonic() < deadline
            QApplication.processEvents()

    def filter(self, text: str) -> None:
        self.page.filter.setText(text)
        QTest.keyClick(self.page.filter, Qt.Key.Key_Return)
        self.settle()

    def group(self, name: str) -> None:
        self.page.group.setCurrentIndex(self.page.group.findData(name))
        self.settle()

    def listed(self) -> list[str]:
        return [row.id for row in self.table.runs.arranged.rows]

    def cell(self, row: int, name: str) -> str:
        names = [column.name for column in self.table.runs.columns]
        return str(self.table.runs.index(row, names.index(name)).data())

    def click(self, row: int, x: int = 100, held: Qt.KeyboardModifier | None = None) -> None:
        place = self.table.visualRect(self.table.runs.index(row, 0)).topLeft() + QPoint(x, 8)
        held = held or Qt.KeyboardModifier.NoModifier
        QTest.mouseClick(self.table.viewport(), Qt.MouseButton.LeftButton, held, place)

    def close(self) -> None:
        self.page.hide()
        self.background.finish()


@pytest.fixture
def page(qtbot: QtBot) -> Iterator[Page]:
    found = Page(qtbot)
    yield found
    found.close()


def runs(count: int = 6) -> list[RunInfo]:
    """Newest first; the odd ones have the seed 1, and a better loss the later they are."""
    return [
        made_run(
            n,
            seed=n % 2,
            learning_rate=10.0**-n,
            name=f"run {n}",
            best={"validation/loss": 1.0 / n},
            metrics={"train/loss": 1.0, "validation/loss": 1.0 / n},
        )
        for n in range(count, 0, -1)
    ]


def test_the_table_is_filtered_sorted_and_says_what_is_wrong(page: Page) -> None:
    page.show(runs())
    assert page.listed() == ["6", "5", "4", "3", "2", "1"]
    page.filter("lr < 0.005")
    assert page.listed() == ["6", "5", "4", "3"]
    assert page.page.count.text() == "4 of 6 runs"
    names = [column.name for column in page.table.runs.columns]
    page.table.horizontalHeader().sectionClicked.emit(names.index("best(validation/loss)"))
    page.settle()
    assert page.listed() == ["6", "5", "4", "3"]
    page.table.horizontalHeader().sectionClicked.emit(names.index("best(validation/loss)"))
    page.settle()
    assert page.listed() == ["3", "4", "5", "6"]
    page.filter("lr < 0.005 and sed = 1")
    assert page.page.problem.text.text() == sentence("no-run-has-sed-did-you")
    assert page.page.filter.property("fault") is True
    assert page.listed() == ["3", "4", "5", "6"], "the last filter counts"
    page.filter("seed = 1")
    assert page.page.problem.isHidden()
    assert page.listed() == ["1", "3", "5"]


def test_before_the_runs_are_known_it_says_that_it_reads_them(page: Page) -> None:
    page.page.set_device_names({"cpu:0": "CPU"})
    page.settle()
    assert page.page.count.text() == "Reading the runs…"
    page.show([])
    assert page.page.count.text() == "0 runs"


def test_runs_that_cannot_be_read_are_counted_and_say_why(page: Page) -> None:
    damaged = UnreadableRun("7", Path(), "Run 7 cannot be read: its settings are lost.")
    page.page.show_unreadable([damaged])
    assert page.page.count.text() == "Reading the runs…"
    page.show(runs())
    assert page.page.count.text() == "6 runs · 1 unreadable"
    assert damaged.reason in page.page.count.toolTip()
    page.page.show_unreadable([])
    assert page.page.count.text() == "6 runs"
    assert not page.page.count.toolTip()


def test_groups_have_means_and_fold(page: Page) -> None:
    page.show(runs(4))
    page.group("seed")
    assert page.listed() == ["group 0", "4", "2", "group 1", "3", "1"]
    assert page.cell(0, "name") == "Seed 0 · 2 runs"
    assert page.cell(0, "best(validation/loss)") == "mean 0.375 ±0.18"
    page.click(0)
    page.settle()
    assert page.listed() == ["group 0", "group 1", "3", "1"]
    page.table.setFocus()
    QTest.keyClick(page.table, Qt.Key.Key_Right)
    page.settle()
    assert page.listed()[:3] == ["group 0", "4", "2"]
    QTest.keyClick(page.table, Qt.Key.Key_Space)
    assert page.chosen.ids() == ["4", "2"]


def test_runs_are_chosen_by_boxes_ranges_and_keys(page: Page, qtbot: QtBot) -> None:
    page.show(runs(12))
    page.click(1, x=12)
    assert page.chosen.ids() == ["11"]
    page.click(4)
    assert page.chosen.ids() == ["11"], "a click beside the box only moves the current row"
    page.click(6, held=SHIFT)
    assert page.chosen.ids() == ["11", "8", "7", "6"]
    page.click(5, held=CONTROL)
    assert page.chosen.ids() == ["11", "8", "6"]
    page.table.setFocus()
    QTest.keyClick(page.table, Qt.Key.Key_Down, SHIFT)
    assert page.chosen.ids() == ["11", "8", "6", "7"]
    QTest.keyClick(page.table, Qt.Key.Key_A, CONTROL)
    assert len(page.chosen.ids()) == 12, "any number"
    assert page.page.selected.text() == "12 selected"
    with qtbot.waitSignal(page.page.opened) as opened:
        QTest.keyClick(page.table, Qt.Key.Key_Return)
    assert opened.args == ["6"]


def test_a_live_run_changes_in_place(page: Page) -> None:
    many = runs(200)
    page.show(many)
    page.click(3)
    bar = page.table.verticalScrollBar()
    bar.setValue(30)
    resets: list[object] = []
    page.table.runs.modelReset.connect(lambda: resets.append(1))
    changed = [many[0]._replace(state=RunState.RUNNING), *many[1:]]
    page.show(changed)
    assert page.cell(0, "state") == "running"
    assert not resets
    assert bar.value() == 30
    before = page.table.rowViewportPosition(3)
    page.show([made_run(201), *changed])
    assert page.listed()[:2] == ["201", "200"]
    current = page.table.current_run()
    assert current.id == "197"
    assert page.table.rowViewportPosition(4) == before, "what the user looks at stays"


def test_columns_order_filter_and_groups_outlast_the_window(qtbot: QtBot, tmp_path: Path) -> None:
    settings = QSettings(str(tmp_path / "window.ini"), QSettings.Format.IniFormat)
    first = Page(qtbot, settings)
    first.show(runs())
    first.page._set_columns(["name", "seed", "state"])
    first.settle()
    first.table.move_column("state", -1)
    first.table.horizontalHeader().resizeSection(0, 333)
    first.page._set_sort("seed")
    first.filter("lr < 1")
    first.group("seed")
    first.close()
    second = Page(qtbot, settings)
    second.show(runs())
    assert second.table.ordered_columns() == ["name", "state", "seed"]
    assert second.table.columnWidth(0) == 333
    assert second.page.filter.text() == "lr < 1"
    assert second.listed()[0] == "group 0"
    assert second.page._query.sort == "seed"
    second.close()


def test_the_csv_has_what_is_shown_exactly(page: Page) -> None:
    page.show(runs(3))
    page.page._set_columns(["name", "learning_rate", "curve(train/loss)", "best(validation/loss)"])
    page.settle()
    page.filter("id > 1")
    lines = list(csv.reader(io.StringIO(page.page.csv_text())))
    assert lines == [
        ["name", "learning_rate", "best(validation/loss)"],
        ["run 3", "0.001", repr(1 / 3)],
        ["run 2", "0.01", "0.5"],
    ]


def test_actions_concern_the_chosen_runs_or_the_current_one(page: Page, qtbot: QtBot) -> None:
    page.show(runs())
    page.click(2)
    with qtbot.waitSignal(page.page.notes_wanted) as wanted:
        page.page.tag.click()
    assert [info.id for info in wanted.args[0]] == ["4"]
    page.chosen.choose(["1", "6"])
    page.table.setFocus()
    with qtbot.waitSignal(page.page.delete_wanted) as deleted:
        QTest.keyClick(page.table, Qt.Key.Key_Delete)
    assert sorted(info.id for info in deleted.args[0]) == ["1", "6"]


def test_differences_take_the_place_of_the_table_and_give_it_back(page: Page) -> None:
    page.show(runs())
    assert page.page.comparison.isHidden()
    page.chosen.choose(["1", "2"])
    assert page.page.comparison.isVisible()
    assert not page.page.comparison.table.isVisible()
    page.page.compare.click()
    assert page.page.comparison.table.isVisible()
    assert not page.table.isVisible()
    page.page.comparison.chips.close_button.click()
    assert page.table.isVisible()
    page.page.compare.click()
    page.chosen.choose(["1"])
    assert page.table.isVisible(), "one run has no differences"


def test_a_screen_reader_hears_what_a_cell_is(page: Page) -> None:
    page.show(runs(2))
    page.chosen.choose(["2"])
    model = page.table.runs
    role = Qt.ItemDataRole.AccessibleTextRole
    assert model.index(0, 0).data(role) == "Name: run 2, chosen"
    assert model.index(0, 0).data(Qt.ItemDataRole.CheckStateRole) == Qt.CheckState.Checked
    assert model.index(1, 1).data(role) == "Number: #1"
    assert model.index(1, 2).data(role) == "State: finished"
    page.group("seed")
    page.page._fold_all(True)
    page.settle()
    assert [isinstance(row, GroupRow) for row in model.arranged.rows] == [True, True]
    assert model.index(0, 0).data(role) == "Seed 0 · 1 run, folded"


def test_a_hidden_page_computes_nothing_until_it_is_shown(page: Page) -> None:
    page.show(runs(2))
    page.page.hide()
    page.page.show_runs(runs(3))
    assert not page.page.is_arranging
    assert page.listed() == ["2", "1"]
    page.page.show()
    page.settle()
    assert page.listed() == ["3", "2", "1"]


def test_the_time_of_a_group_says_that_it_is_a_mean(page: Page) -> None:
    page.show([made_run(1, seconds=60.0), made_run(2, seconds=120.0), made_run(3, seed=1)])
    page.group("seed")
    assert page.cell(0, "time").startswith("mean ")
    assert page.cell(3, "time") == page.cell(4, "time"), "a single run needs no mean"


def test_a_click_shows_the_means_of_groups_and_runs_again(qtbot: QtBot, tmp_path: Path) -> None:
    for seed, losses in ((1, (1.0, 3.0)), (1, (3.0, 7.0)), (2, (5.0,)), (1, (8.0, 8.0))):
        record_epochs("finished", losses, seed=seed)
    settings = QSettings(str(tmp_path / "window.ini"), QSettings.Format.IniFormat)
    page = Page(qtbot, settings)
    infos = RunIndex().runs()
    page.page.comparison.show_runs(infos)
    page.show(infos)
    page.chosen.choose(["1", "2", "3"])
    comparison = page.page.comparison
    plots = comparison.plots
    assert not page.page.bands.isEnabled(), "nothing is grouped"

    def labels() -> dict[str, int]:
        plots.tick()
        shown = [plot for plot in plots.plots() if plot.title == "Val loss"]
        return {each.label: each.colour_index for plot in shown for each in plot.curves.curves()}

    each_run = {f"#{number} digits": number - 1 for number in (1, 2, 3)}
    qtbot.waitUntil(lambda: labels() == each_run)
    page.group("seed")
    assert labels() == each_run, "not before the click"
    QTest.mouseClick(page.page.bands, Qt.MouseButton.LeftButton)
    means = {"Seed 1, mean of 2 runs ± sd": 0, "Seed 2, 1 run": 1}
    assert labels() == means
    readings = plots.plot("Val loss").readings(20.0)[1]
    assert [each.value for each in readings] == ["5 ± 2.8"]
    assert page.table.runs.chosen == {"1": 0, "2": 0, "3": 1}, "rows have the colour of the group"
    page.chosen.toggle("4")
    changed = {"Seed 1, mean of 3 runs ± sd": 0, "Seed 2, 1 run": 1}
    qtbot.waitUntil(lambda: labels() == changed)
    assert plots.plot("Val loss").readings(20.0)[1][0].value == "6 ± 2.6"
    page.chosen.keep_only(["1", "3", "4"])
    assert labels() == means
    again = Page(qtbot, settings)
    assert again.page.bands.isChecked(), "it is remembered"
    again.close()
    QTest.mouseClick(page.page.bands, Qt.MouseButton.LeftButton)
    assert labels() == {"#1 digits": 0, "#3 digits": 2, "#4 digits": 3}
    assert len(plots.plot("Val loss").curves["4"].series) == 2
    page.close()


def test_a_run_with_two_tags_stands_in_both_groups_and_counts_once(page: Page) -> None:
    page.show([made_run(n, tags=("a", "b") if n == 2 else ("a",), epochs=n) for n in (1, 2, 3)])
    page.group("tags")
    assert page.listed() == ["group 'a'", "1", "2", "3", "group 'b'", "2"]
    assert page.page.count.text() == "3 runs"
    page.table.setCurrentIndex(page.table.runs.index(5, 0))
    QTest.keyClick(page.table, Qt.Key.Key_Space)
    assert set(page.chosen.ids()) == {"2"}
    page.show([made_run(n, tags=("a", "b") if n > 1 else ("a",), epochs=n) for n in (1, 2, 3)])
    assert page.table.currentIndex().row() == 5, "it stays in its group"
    assert page.table.runs.rows[5].id == "2"


def test_runs_that_differ_in_their_seed_have_one_mean_named_by_their_settings(page: Page) -> None:
    page.show([made_run(n, seed=n, learning_rate=0.1 if n < 3 else 0.2) for n in (1, 2, 3)])
    page.group("but_seed")
    titles = [page.cell(row, "name") for row in (0, 3)]
    assert titles == ["learning_rate 0.1 · 2 runs", "learning_rate 0.2 · 1 run"]


def test_groups_whose_values_look_alike_are_apart() -> None:
    rates = (0.001, 0.001, 0.001 * (1 + 1e-12))
    infos = [made_run(number, learning_rate=rate) for number, rate in enumerate(rates, 1)]
    groups = run_groups(infos, columns_of(infos, {})["learning_rate"])
    assert sorted(group.run_ids for group in groups) == [("1", "2"), ("3",)]
    assert len({group.name for group in groups}) == 2
