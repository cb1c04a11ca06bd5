"""Searching, sorting and choosing in the list of runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QSettings, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from engine.runs.run_notes import RunNotes, write_notes
from engine.system import paths
from gui.run_list.chosen_runs import COLOURS, ChosenRuns
from gui.run_list.filter_sort import SortOrder
from gui.run_list.run_delegate import ROW_HEIGHT
from gui.run_list.run_list_model import ID
from tests.gui.run_list.run_lists import Room, room
from tests.support.recorded_runs import record_epochs

__all__ = ["room"]


def test_every_word_of_a_search_must_be_found_somewhere(room: Room) -> None:
    record_epochs("finished", name="Wide net")
    folder = record_epochs("failed", name="narrow")
    write_notes(folder, RunNotes(tags=("Sweep",), note="the rate was too high"))
    room.refresh()
    for words, found in {
        "": ["2", "1"],
        "WIDE": ["1"],
        "sweep rate": ["2"],
        "sweep wide": [],
        "failed": ["2"],
        "torch/single digits": ["2", "1"],
        "#1": ["1"],
    }.items():
        room.panel.search.setText(words)
        assert room.listed() == found, words
        assert room.panel.empty.isVisible() == (not found)


def test_runs_can_be_sorted_by_what_they_reached(room: Room) -> None:
    for state, losses, name in (
        ("finished", (0.5, 0.9), "b"),
        ("finished", (0.2, 0.3), "C"),
        ("failed", (), "a"),
    ):
        record_epochs(state, losses, name=name)
    room.refresh()
    for order, found in {
        SortOrder.METRIC: ["2", "1", "3"],
        SortOrder.LOSS: ["2", "1", "3"],
        SortOrder.NAME: ["3", "1", "2"],
        SortOrder.NEWEST: ["3", "2", "1"],
    }.items():
        room.panel.order.setCurrentIndex(room.panel.order.findData(order))
        assert room.listed() == found, order


def test_the_order_by_metric_follows_the_directions_of_the_runs(room: Room) -> None:
    for losses in ((0.5, 0.2), (0.4, 0.3), (0.6, 0.1)):
        record_epochs("finished", losses, metric_directions={"loss": "max"})
    room.refresh()
    room.panel.order.setCurrentIndex(room.panel.order.findData(SortOrder.METRIC))
    assert room.listed() == ["3", "1", "2"]


def test_a_click_on_the_box_chooses_and_does_not_open(room: Room, qtbot: QtBot) -> None:
    record_epochs("finished")
    record_epochs("finished")
    room.refresh()
    assert not room.panel.compare.isEnabled()
    width = room.panel.compare.width()
    with qtbot.assertNotEmitted(room.history.opened):
        for row in range(2):
            where = room.history.visualRect(room.history.model().index(row, 0)).topRight()
            place = where + QPoint(-14, 16)
            QTest.mouseClick(room.history.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert room.chosen.colours() == {"2": 0, "1": 1}
    assert room.panel.compare.isEnabled()
    assert room.panel.compare.text() == "Compare 2"
    QApplication.processEvents()
    assert room.panel.compare.width() == width


def test_a_run_keeps_its_colour_while_others_come_and_go() -> None:
    chosen = ChosenRuns()
    for run_id in "123":
        chosen.toggle(run_id)
    chosen.pin("1")
    chosen.toggle("1")
    assert chosen.colours() == {"2": 1, "3": 2}
    assert chosen.baseline is None
    chosen.toggle("4")
    assert chosen.colours() == {"2": 1, "3": 2, "4": 3}
    chosen.toggle("1")
    assert chosen.colours() == {"2": 1, "3": 2, "4": 3, "1": 0}
    many = [str(number) for number in range(2, 3 * COLOURS)]
    chosen.choose(many)
    assert chosen.ids() == ["2", "3", "4", *many[3:]]
    assert sorted(chosen.colours().values()) == list(range(len(many)))


def test_several_runs_are_selected_without_being_opened(room: Room, qtbot: QtBot) -> None:
    for _ in range(3):
        record_epochs("finished")
    room.refresh()
    room.history.watch("3")
    with qtbot.assertNotEmitted(room.history.opened):
        middle = room.history.visualRect(room.history.model().index(2, 0)).center()
        QTest.mouseClick(
            room.history.viewport(),
            Qt.MouseButton.LeftButton,
            Qt.KeyboardModifier.ShiftModifier,
            middle,
        )
    assert room.history.selected_ids() == ["3", "2", "1"]
    room.actions.compare.trigger()
    assert room.chosen.ids() == ["3", "2", "1"]
    assert room.panel.compare.isChecked()


def test_only_rows_that_changed_are_written_again(room: Room) -> None:
    for _ in range(5):
        record_epochs("finished")
    room.refresh()
    touched: list[tuple[int, int]] = []
    room.history.model().dataChanged.connect(
        lambda first, last, *_: touched.append((first.row(), last.row()))
    )
    for run_id in ("5", "4", "2"):
        write_notes(paths.run_folder(run_id), RunNotes(name="new"))
    room.refresh()
    assert touched == [(0, 1), (3, 3)]


def test_a_search_does_not_change_the_selection(room: Room) -> None:
    for name in ("kept", "deleted"):
        record_epochs("finished", name=name)
    room.refresh()
    room.history.watch("2")
    room.panel.search.setText("kept")
    assert room.listed() == ["1"]
    assert room.history.selected_ids() == []
    assert not room.actions.delete.isEnabled()
    room.panel.search.setText("")
    assert room.history.selected_ids() == ["2"]


def test_the_keys_of_the_list(room: Room, qtbot: QtBot) -> None:
    for _ in range(2):
        record_epochs("finished")
    room.refresh()
    room.history.watch("2")
    room.history.setFocus()
    QTest.keyClick(room.history, Qt.Key.Key_Space)
    assert room.chosen.ids() == ["2"]
    with qtbot.waitSignal(room.history.opened) as opened:
        QTest.keyClick(room.history, Qt.Key.Key_Return)
    assert opened.args == ["2"]
    with qtbot.waitSignal(room.history.search_wanted):
        QTest.keyClick(room.history, Qt.Key.Key_F, Qt.KeyboardModifier.ControlModifier)


def test_a_new_run_does_not_move_what_is_in_sight(room: Room) -> None:
    for _ in range(30):
        record_epochs("finished")
    room.refresh()
    room.history.verticalScrollBar().setValue(10 * ROW_HEIGHT + 7)
    top = room.history.indexAt(QPoint(5, 0)).data(ID)
    record_epochs("finished")
    room.refresh()
    assert room.history.indexAt(QPoint(5, 0)).data(ID) == top
    assert room.history.verticalScrollBar().value() == 11 * ROW_HEIGHT + 7


def test_the_choice_and_its_colours_outlast_the_window(tmp_path: Path) -> None:
    settings = QSettings(str(tmp_path / "window.ini"), QSettings.Format.IniFormat)
    chosen = ChosenRuns(settings)
    for run_id in ("5", "6", "7"):
        chosen.toggle(run_id)
    chosen.toggle("5")
    chosen.pin("7")
    settings.sync()
    again = ChosenRuns(QSettings(str(tmp_path / "window.ini"), QSettings.Format.IniFormat))
    assert again.colours() == {"6": 1, "7": 2}
    assert again.baseline == "7"
    again.toggle("5")
    assert again.colours()["5"] == 0


def test_chosen_runs_of_a_machine_come_back_when_it_answers(tmp_path: Path) -> None:
    def opened() -> ChosenRuns:
        return ChosenRuns(QSettings(str(tmp_path / "window.ini"), QSettings.Format.IniFormat))

    chosen = opened()
    chosen.choose(["5", "gpus:5", "lab:1"])
    chosen.pin("gpus:5")
    chosen.follow_list(["5", "gpus:5", "lab:1"])
    again = opened()
    assert (again.colours(), again.baseline) == ({"5": 0}, None), "no machine has answered yet"
    again.follow_list(["5", "6"])
    again.toggle("6")
    again = opened()
    assert again.ids() == ["5", "6"]
    again.follow_list(["5", "6", "gpus:5", "gpus:7"])
    assert again.colours() == {"5": 0, "6": 3, "gpus:5": 1}
    assert again.baseline == "gpus:5"
    again.follow_list(["5", "6"])  # that machine was disconnected
    assert (again.ids(), again.baseline) == (["5", "6"], None)
    again.follow_list(["5", "6", "gpus:5"])
    assert (again.ids(), again.baseline) == (["5", "6", "gpus:5"], "gpus:5")
    again.follow_list(["5", "6", "gpus:7", "lab:1"])  # one was deleted there
    assert again.colours() == {"5": 0, "6": 3, "lab:1": 2}
    again.follow_list(["5", "6", "gpus:5"])
    assert again.ids() == ["5", "6"]
    again.choose(())
    again.follow_list(["5", "6", "lab:1"])
    assert again.ids() == []


@pytest.mark.parametrize("said", ["1:0 2:0", "x 2: 1:9999999", "nonsense", "1:-1"])
def test_a_choice_that_makes_no_sense_is_forgotten(said: str, tmp_path: Path) -> None:
    settings = QSettings(str(tmp_path / "window.ini"), QSettings.Format.IniFormat)
    settings.setValue("compare/runs", said)
    assert ChosenRuns(settings).ids() == []


def test_it_says_that_the_runs_are_being_read_until_they_are(room: Room) -> None:
    assert room.panel.empty.isVisible()
    assert room.panel.empty.text() == "Reading the runs…"
    room.refresh()
    assert room.panel.empty.text() == "No runs yet."
    record_epochs("finished")
    room.refresh()
    assert not room.panel.empty.isVisible()


def test_an_opened_search_has_the_focus(room: Room, qtbot: QtBot) -> None:
    room.refresh()
    QTest.mouseClick(room.panel.search_button, Qt.MouseButton.LeftButton)
    assert room.window.focusWidget() is room.panel.search
