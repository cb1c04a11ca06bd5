"""Notes on runs; deleting, restoring and repeating runs."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QMessageBox
from pytestqt.qtbot import QtBot

from engine import client
from engine.runs import trash
from engine.runs.run_index import RunIndex
from engine.runs.run_notes import RunNotes, read_notes, write_notes
from engine.system import paths
from gui.run_list.notes_dialog import NotesDialog
from tests.gui.run_list.run_lists import Room, room, select
from tests.support.recorded_runs import record_epochs
from tests.support.sentences import sentence

__all__ = ["room"]


def test_a_run_is_named_tagged_and_noted(room: Room, qtbot: QtBot) -> None:
    folder = record_epochs("finished", name="first name")
    room.refresh()
    select(room, "1")
    room.actions.notes.trigger()
    dialog = room.window.findChild(NotesDialog)
    assert dialog.name.placeholderText() == "first name"
    dialog.name.setText("better name")
    dialog.tags.setText("b, a")
    dialog.note.setPlainText("two\nlines")
    with qtbot.waitSignal(room.actions.changed):
        dialog.accept()
    assert read_notes(folder) == RunNotes(name="better name", tags=("a", "b"), note="two\nlines")
    assert room.history.model().index(0, 0).data() == "better name · single · #1"
    assert room.panel.known_tags() == ["a", "b"]


def test_tags_are_added_to_several_runs(room: Room, qtbot: QtBot) -> None:
    folders = [record_epochs("finished"), record_epochs("finished")]
    write_notes(folders[0], RunNotes(name="mine", tags=("z",)))
    room.refresh()
    select(room, "1", "2")
    room.actions.notes.trigger()
    dialog = room.window.findChild(NotesDialog)
    dialog.tags.setText("new")
    with qtbot.waitSignal(room.actions.changed):
        dialog.accept()
    assert read_notes(folders[0]) == RunNotes(name="mine", tags=("new", "z"))
    assert read_notes(folders[1]) == RunNotes(tags=("new",))


def test_deleted_runs_can_be_brought_back(room: Room, qtbot: QtBot) -> None:
    for _ in range(3):
        record_epochs("finished")
    room.refresh()
    select(room, "1", "3")
    with qtbot.waitSignal(room.actions.changed):
        room.actions.delete.trigger()
    assert room.listed() == ["2"]
    assert room.panel.undo_bar.isVisible()
    assert room.panel.undo_bar.text.text() == "2 runs are in the trash."
    with qtbot.waitSignal(room.actions.changed):
        room.panel.undo_bar.undo.click()
    assert room.listed() == ["3", "2", "1"]
    assert not room.panel.undo_bar.isVisible()


def test_an_active_run_cannot_be_deleted_and_the_reason_is_shown(room: Room) -> None:
    record_epochs("running")
    room.refresh()
    select(room, "1")
    assert room.actions.delete.text() == sentence("move-to-trash-run-is-running")
    said: list[str] = []
    room.actions.failed.connect(said.append)
    QTest.keyClick(room.history, Qt.Key.Key_Delete)
    assert said == [sentence("run-is-running-stop-it-before-deletion")]
    assert client.get_run("1").id == "1"


def test_a_run_that_became_active_meanwhile_is_not_deleted(
    room: Room, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_epochs("stopped")
    record_epochs("stopped")
    room.refresh()
    select(room, "1", "2")
    delete = trash.delete

    def refuse(run_id: str) -> None:
        if run_id == "1":
            raise trash.CannotDelete("Run 1 is running: stop it before you delete it.")
        delete(run_id)

    monkeypatch.setattr("engine.runs.trash.delete", refuse)
    with qtbot.waitSignal(room.actions.failed) as said:
        room.actions.delete.trigger()
    assert said.args == ["Run 1 is running: stop it before you delete it."]
    assert room.listed() == ["1"]
    assert room.panel.undo_bar.text.text() == "Run 2 is in the trash."


def test_the_trash_is_emptied_only_after_a_yes(room: Room, qtbot: QtBot) -> None:
    record_epochs("finished")
    trash.delete("1")
    room.panel.empty_trash.trigger()
    box = room.window.findChild(QMessageBox)
    assert "1 run for good" in box.text()
    box.button(QMessageBox.StandardButton.Cancel).click()
    assert trash.trashed() == ["1"]
    room.panel.empty_trash.trigger()
    box = next(each for each in room.window.findChildren(QMessageBox) if each.isVisible())
    with qtbot.waitSignal(room.actions.changed):
        next(button for button in box.buttons() if button.text() == "Empty trash").click()
    assert trash.trashed() == []


def test_a_run_is_run_again_as_it_was(room: Room, qtbot: QtBot) -> None:
    record_epochs("finished", epochs=7)
    room.refresh()
    select(room, "1")
    with qtbot.waitSignal(room.actions.rerun_requested) as asked:
        room.actions.again.trigger()
    assert [each.spec for each in asked.args] == [client.get_run("1").spec]


def test_a_run_that_cannot_be_read_is_found_and_deleted(room: Room, qtbot: QtBot) -> None:
    record_epochs("finished")
    (record_epochs("finished") / "spec.toml").write_bytes(b"noise")
    index = RunIndex()
    room.panel.show_runs(index.runs())
    room.panel.show_unreadable(index.unreadable)
    assert room.panel.count.text() == "2"
    room.panel.search.setText("#1")
    assert room.history.model().rowCount() == 1
    room.panel.search.setText("unreadable")
    room.history.setCurrentIndex(room.history.model().index(0, 0))
    assert room.history.selected_ids() == ["2"]
    assert not room.actions.notes.isEnabled()
    with qtbot.waitSignal(room.actions.changed):
        QTest.keyClick(room.history, Qt.Key.Key_Delete)
    assert trash.trashed() == ["2"]


def test_the_trash_gives_back_what_another_window_put_there(room: Room, qtbot: QtBot) -> None:
    for _ in range(3):
        record_epochs("finished")
        trash.delete(str(len(trash.trashed()) + 1))
    menu = room.panel.restore_menu
    room.panel.more.menu().aboutToShow.emit()
    assert [action.text() for action in menu.actions()] == ["Run 3", "Run 2", "Run 1", "All 3"]
    with qtbot.waitSignal(room.actions.changed):
        menu.actions()[1].trigger()
    assert (trash.trashed(), paths.run_ids()) == (["3", "1"], ["2"])
    room.panel.more.menu().aboutToShow.emit()
    with qtbot.waitSignal(room.actions.changed):
        menu.actions()[-1].trigger()
    assert trash.trashed() == []
    room.panel.more.menu().aboutToShow.emit()
    assert not menu.isEnabled()


def test_restorable_runs_are_restored_and_the_rest_is_reported(room: Room, qtbot: QtBot) -> None:
    for _ in range(2):
        record_epochs("finished")
    room.refresh()
    select(room, "1", "2")
    with qtbot.waitSignal(room.actions.changed):
        room.actions.delete.trigger()
    (paths.trash_folder() / "2").rename(paths.trash_folder() / "elsewhere")
    record_epochs("finished")
    with qtbot.waitSignal(room.actions.failed) as said:
        room.panel.undo_bar.undo.click()
    assert said.args == [sentence("run-is-not-in-trash-any")]
    assert room.listed() == ["3", "1"]


def test_notes_on_a_missing_run_are_refused_with_a_sentence(room: Room, qtbot: QtBot) -> None:
    folder = record_epochs("finished")
    room.refresh()
    select(room, "1")
    QTest.keyClick(room.history, Qt.Key.Key_F2)
    dialog = room.window.findChild(NotesDialog)
    folder.rename(folder.parent / "elsewhere")
    with qtbot.waitSignal(room.actions.failed) as said:
        dialog.accept()
    assert said.args[0].startswith(sentence("notes-on-run-cannot-be-written"))
    qtbot.waitUntil(lambda: dialog.problem.text() == said.args[0])
    (folder.parent / "elsewhere").rename(folder)
    dialog.note.setPlainText("it took me an hour")
    with qtbot.waitSignal(dialog.accepted):
        dialog.accept()
    assert read_notes(folder).note == "it took me an hour"


def test_the_run_below_is_shown_when_the_watched_one_is_deleted(room: Room) -> None:
    for _ in range(4):
        record_epochs("finished")
    room.refresh()
    room.history.watch("3")
    assert room.history.neighbour(["3"]) == "2"
    assert room.history.neighbour(["3", "2", "1"]) == "4"
    assert room.history.neighbour(["1", "2", "3", "4"]) is None
