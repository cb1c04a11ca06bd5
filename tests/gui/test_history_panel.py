"""Searching, sorting, tagging, deleting and choosing in the list of runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMessageBox, QWidget
from pytestqt.qtbot import QtBot

from engine import client, paths, trash
from engine.run_index import RunIndex
from engine.run_notes import RunNotes, read_notes, write_notes
from gui.background import Background
from gui.compare.chosen import MOST, ChosenRuns
from gui.history_desk import HistoryDesk
from gui.history_panel import HistoryPanel
from gui.notes_dialog import NotesDialog
from gui.run_history import RunHistory
from gui.run_order import Order
from gui.theme import ThemeController
from tests.engine.written_runs import write_run


class Room(NamedTuple):
    """The list with everything around it."""

    history: RunHistory
    panel: HistoryPanel
    chosen: ChosenRuns
    desk: HistoryDesk
    window: QWidget

    def refresh(self) -> None:
        self.panel.show_runs(RunIndex().runs())

    def listed(self) -> list[str]:
        return [info.id for info in self.history._infos]


@pytest.fixture
def room(qtbot: QtBot, qapp: QApplication) -> Iterator[Room]:
    window, background, chosen = QWidget(), Background(), ChosenRuns()
    theme = ThemeController(qapp).current
    history = RunHistory(theme)
    panel = HistoryPanel(history, chosen, theme, window)
    desk = HistoryDesk(history, panel, chosen, background, window)
    room = Room(history, panel, chosen, desk, window)
    desk.changed.connect(room.refresh)
    qtbot.addWidget(window)
    panel.resize(300, 400)
    window.show()
    yield room
    background.finish()


def select(room: Room, *run_ids: str) -> None:
    for row, run_id in enumerate(room.listed()):
        room.history.item(row).setSelected(run_id in run_ids)


def test_every_word_of_a_search_must_be_found_somewhere(room: Room) -> None:
    write_run("finished", name="Wide net")
    folder = write_run("failed", name="narrow")
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
        write_run(state, losses, name=name)
    room.refresh()
    for order, found in {
        Order.METRIC: ["2", "1", "3"],
        Order.LOSS: ["2", "1", "3"],
        Order.NAME: ["3", "1", "2"],
        Order.NEWEST: ["3", "2", "1"],
    }.items():
        room.panel.order.setCurrentText(order)
        assert room.listed() == found, order


def test_a_click_on_the_box_chooses_and_does_not_open(room: Room, qtbot: QtBot) -> None:
    write_run("finished")
    write_run("finished")
    room.refresh()
    assert not room.panel.compare.isEnabled()
    with qtbot.assertNotEmitted(room.history.opened):
        for row in range(2):
            where = room.history.visualItemRect(room.history.item(row)).topRight()
            place = where + QPoint(-14, 16)
            QTest.mouseClick(room.history.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert room.chosen.colours() == {"2": 0, "1": 1}
    assert room.panel.compare.isEnabled()


def test_a_run_keeps_its_colour_while_others_come_and_go(qtbot: QtBot) -> None:
    chosen = ChosenRuns()
    for run_id in "123":
        chosen.toggle(run_id)
    chosen.pin("1")
    chosen.toggle("1")
    assert chosen.colours() == {"2": 1, "3": 2}
    assert chosen.baseline is None
    chosen.toggle("4")
    assert chosen.colours() == {"2": 1, "3": 2, "4": 0}
    with qtbot.waitSignal(chosen.refused) as said:
        chosen.choose([str(number) for number in range(2, MOST + 3)])
    assert len(chosen.ids()) == MOST
    assert f"{MOST} runs can be compared" in said.args[0]


def test_several_runs_are_selected_without_being_opened(room: Room, qtbot: QtBot) -> None:
    for _ in range(3):
        write_run("finished")
    room.refresh()
    room.history.watch("3")
    with qtbot.assertNotEmitted(room.history.opened):
        middle = room.history.visualItemRect(room.history.item(2)).center()
        QTest.mouseClick(
            room.history.viewport(),
            Qt.MouseButton.LeftButton,
            Qt.KeyboardModifier.ShiftModifier,
            middle,
        )
    assert room.history.selected_ids() == ["3", "2", "1"]
    room.desk.compare.trigger()
    assert room.chosen.ids() == ["3", "2", "1"]
    assert room.panel.compare.isChecked()


def test_a_run_is_named_tagged_and_noted(room: Room, qtbot: QtBot) -> None:
    folder = write_run("finished", name="first name")
    room.refresh()
    select(room, "1")
    room.desk.notes.trigger()
    dialog = room.window.findChild(NotesDialog)
    assert dialog.name.placeholderText() == "first name"
    dialog.name.setText("better name")
    dialog.tags.setText("b, a")
    dialog.note.setPlainText("two\nlines")
    with qtbot.waitSignal(room.desk.changed):
        dialog.accept()
    assert read_notes(folder) == RunNotes(name="better name", tags=("a", "b"), note="two\nlines")
    assert room.history.item(0).text() == "better name · single · #1"
    assert room.panel.known_tags() == ["a", "b"]


def test_tags_are_added_to_several_runs(room: Room, qtbot: QtBot) -> None:
    folders = [write_run("finished"), write_run("finished")]
    write_notes(folders[0], RunNotes(name="mine", tags=("z",)))
    room.refresh()
    select(room, "1", "2")
    room.desk.notes.trigger()
    dialog = room.window.findChild(NotesDialog)
    dialog.tags.setText("new")
    with qtbot.waitSignal(room.desk.changed):
        dialog.accept()
    assert read_notes(folders[0]) == RunNotes(name="mine", tags=("new", "z"))
    assert read_notes(folders[1]) == RunNotes(tags=("new",))


def test_deleted_runs_can_be_brought_back(room: Room, qtbot: QtBot) -> None:
    for _ in range(3):
        write_run("finished")
    room.refresh()
    select(room, "1", "3")
    with qtbot.waitSignal(room.desk.changed):
        room.desk.delete.trigger()
    assert room.listed() == ["2"]
    assert room.panel.undo_bar.isVisible()
    assert room.panel.undo_bar.text.text() == "2 runs are in the trash."
    with qtbot.waitSignal(room.desk.changed):
        room.panel.undo_bar.undo.click()
    assert room.listed() == ["3", "2", "1"]
    assert not room.panel.undo_bar.isVisible()


def test_an_active_run_cannot_be_deleted_and_the_reason_is_said(room: Room) -> None:
    write_run("running")
    room.refresh()
    select(room, "1")
    assert not room.desk.delete.isEnabled()
    assert room.desk.delete.text() == "Delete: run 1 is running, stop it first"


def test_a_run_that_became_active_meanwhile_is_not_deleted(
    room: Room, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run("stopped")
    write_run("stopped")
    room.refresh()
    select(room, "1", "2")
    delete = trash.delete

    def refuse(run_id: str) -> None:
        if run_id == "1":
            raise trash.CannotDelete("Run 1 is running: stop it before you delete it.")
        delete(run_id)

    monkeypatch.setattr("engine.trash.delete", refuse)
    with qtbot.waitSignal(room.desk.failed) as said:
        room.desk.delete.trigger()
    assert said.args == ["Run 1 is running: stop it before you delete it."]
    assert room.listed() == ["1"]
    assert room.panel.undo_bar.text.text() == "Run 2 is in the trash."


def test_the_trash_is_emptied_only_after_a_yes(room: Room, qtbot: QtBot) -> None:
    write_run("finished")
    trash.delete("1")
    room.panel.empty_trash.trigger()
    box = room.window.findChild(QMessageBox)
    assert "1 run for good" in box.text()
    box.button(QMessageBox.StandardButton.Cancel).click()
    assert trash.trashed() == ["1"]
    room.panel.empty_trash.trigger()
    box = next(each for each in room.window.findChildren(QMessageBox) if each.isVisible())
    with qtbot.waitSignal(room.desk.changed):
        next(button for button in box.buttons() if button.text() == "Empty trash").click()
    assert trash.trashed() == []


def test_a_run_is_run_again_as_it_was(room: Room, qtbot: QtBot) -> None:
    write_run("finished", epochs=7)
    room.refresh()
    select(room, "1")
    with qtbot.waitSignal(room.desk.again_requested) as asked:
        room.desk.again.trigger()
    assert asked.args == [client.look("1").spec]


def test_only_rows_that_changed_are_written_again(room: Room) -> None:
    for _ in range(3):
        write_run("finished")
    room.refresh()
    touched: list[int] = []
    room.history.model().dataChanged.connect(lambda index, *_: touched.append(index.row()))
    write_notes(paths.run_folder("2"), RunNotes(name="new"))
    room.refresh()
    assert set(touched) == {1}


def test_a_search_selects_no_run_that_nobody_selected(room: Room) -> None:
    for name in ("kept", "deleted"):
        write_run("finished", name=name)
    room.refresh()
    room.history.watch("2")
    room.panel.search.setText("kept")
    assert room.listed() == ["1"]
    assert room.history.selected_ids() == []
    assert not room.desk.delete.isEnabled()
    room.panel.search.setText("")
    assert room.history.selected_ids() == ["2"]
