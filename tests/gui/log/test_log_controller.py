"""Log and events behind their bar: ranks, searching, and the first error."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QTabWidget
from pytestqt.qtbot import QtBot

from engine.messages.events import CheckpointSaved, WorkerFailed, WorkerStarted
from engine.runs.store.store_reader import StoredEvent
from gui.log import event_model, log_view
from gui.log.event_table import EventTable
from gui.log.log_bar import LogBar
from gui.log.log_controller import LogController
from gui.log.log_lines import is_error, output_line
from gui.log.log_view import LogView
from gui.style.theme import ThemeController
from tests.support.sentences import sentence

SAVED = StoredEvent(1, 0.5, CheckpointSaved("step-5", 5, 1, 1024, 0.1))
STARTED = StoredEvent(2, 0.6, WorkerStarted(3, 4711, ("cpu:3",)))
FAILED = StoredEvent(3, 0.7, WorkerFailed(3, "It broke.", "model", "", False))


class Room:
    def __init__(self, qtbot: QtBot, qapp: QApplication) -> None:
        self.log, self.events = LogView(ThemeController(qapp).current), EventTable()
        self.bar = LogBar()
        self.tabs = QTabWidget()
        self.tabs.addTab(self.log, "Log")
        self.tabs.addTab(self.events, "Events")
        for widget in (self.tabs, self.bar):
            qtbot.addWidget(widget)
            widget.show()
        self.controller = LogController(self.bar, self.log, self.events)
        self.controller.log_requested.connect(lambda: self.tabs.setCurrentWidget(self.log))

    def selected(self) -> str:
        return self.log.textCursor().selectedText()


@pytest.fixture
def room(qtbot: QtBot, qapp: QApplication) -> Room:
    return Room(qtbot, qapp)


GPU = "GPU-3f6b0c1e-0000-4444-8888-000000000001"
TOOK = StoredEvent(4, 0.8, WorkerStarted(0, 4711, (GPU,)))


def test_a_gpu_is_called_what_it_is_called_everywhere(room: Room) -> None:
    room.controller.add_events([TOOK])
    room.controller.add_output(0, [f"a worker prints {GPU}"])
    room.controller.set_device_names({GPU: "GPU 1", "cpu": "CPU"})
    room.controller.add_events([TOOK])
    lines = room.log.toPlainText().split("\n")
    assert [line.split("  ")[-1] for line in lines] == [
        sentence("worker-process-started-for-gpu"),
        f"a worker prints {GPU}",
        sentence("worker-process-started-for-gpu"),
    ], "what was said before its name was known, too; but a worker's words are its own"
    model = room.events.model()
    texts = {model.index(row, model.columnCount() - 1).data() for row in range(2)}
    assert texts == {sentence("worker-process-started-for-gpu")}
    room.bar.filter.setText("gpu 1")
    assert model.rowCount() == 2
    assert len(room.log.toPlainText().split("\n")) == 2


def test_the_lines_of_one_rank(room: Room) -> None:
    room.controller.add_output(2, ["from two"])
    room.controller.add_output(0, ["from zero"])
    room.controller.add_events([SAVED, STARTED])
    names = [room.bar.ranks.itemText(row) for row in range(room.bar.ranks.count())]
    assert names == ["All ranks", "Supervisor", "Rank 0", "Rank 2", "Rank 3"]
    room.bar.ranks.setCurrentText("Rank 2")
    room.controller.add_output(0, ["more from zero"])
    assert room.log.toPlainText().endswith("from two")
    assert "zero" not in room.log.toPlainText()
    room.bar.ranks.setCurrentText("Rank 3")
    assert room.events.model().rowCount() == 1
    room.controller.clear()
    room.controller.add_output(0, ["another run"])
    assert "another run" in room.log.toPlainText()


def test_searching_marks_all_lines_and_goes_round(room: Room) -> None:
    room.controller.add_output(0, ["alpha 1", "beta", "Alpha 2"])
    room.bar.only_matches.click()
    room.bar.filter.setText("ALPHA")
    assert "beta" in room.log.toPlainText()
    found = []
    for _ in range(3):
        QTest.keyClick(room.bar.filter, Qt.Key.Key_Return)
        found.append(room.selected()[-7:])
    assert sorted(found[:2]) == ["Alpha 2", "alpha 1"]
    assert found[2] == found[0]
    room.controller.find_previous()
    assert room.selected()[-7:] == found[1]


def test_both_wait_for_the_last_letter_and_return_does_not(room: Room, qtbot: QtBot) -> None:
    room.controller.add_events([SAVED])
    room.controller.add_output(0, ["alpha 1", "beta", "Alpha 2"])
    QTest.keyClicks(room.bar.filter, "alpha")
    assert "beta" in room.log.toPlainText()
    assert room.events.model().rowCount() == 1
    room.controller.add_output(0, ["gamma"])
    room.log.count()
    assert room.bar.matches.text() == "", "it would be of another text"
    qtbot.waitUntil(lambda: room.bar.matches.text() == "2")
    assert "beta" not in room.log.toPlainText()
    assert room.events.model().rowCount() == 0
    QTest.keyClicks(room.bar.filter, " 2")
    QTest.keyClick(room.bar.filter, Qt.Key.Key_Return)
    assert room.selected().endswith("Alpha 2")
    assert room.bar.matches.text() == "1 / 1"
    QTest.keyClicks(room.bar.filter, "x")
    room.bar.filter.clear()
    room.bar.first_error.click()
    assert "beta" in room.log.toPlainText()


def test_the_number_of_matches_is_said_and_where_one_is(room: Room, qtbot: QtBot) -> None:
    room.controller.add_output(0, ["alpha 1", "beta", "Alpha 2"])
    room.bar.filter.setText("alpha")
    assert room.bar.matches.text() == "2"
    room.bar.next.click()
    first = room.bar.matches.text()
    room.bar.next.click()
    assert {first, room.bar.matches.text()} == {"1 / 2", "2 / 2"}
    room.bar.previous.click()
    assert room.bar.matches.text() == first
    room.controller.add_output(0, ["alpha 3"])
    qtbot.waitUntil(lambda: room.bar.matches.text().endswith("3"))
    room.bar.filter.setText("gamma")
    assert room.bar.matches.text() == "nothing"
    assert not room.bar.next.isEnabled()
    place = room.bar.only_matches.pos()
    room.bar.filter.clear()
    assert room.bar.matches.text() == ""
    assert not room.bar.next.isVisible()
    assert room.bar.only_matches.pos() == place


def test_the_table_in_sight_is_searched_and_counted(room: Room) -> None:
    room.controller.add_output(0, ["step-5"])
    room.controller.add_events([SAVED, STARTED, FAILED, SAVED])
    room.bar.filter.setText("step-5")
    room.bar.only_matches.click()
    room.tabs.setCurrentWidget(room.events)
    assert room.bar.matches.text() == "2"
    for place, row in (("1 / 2", 0), ("2 / 2", 3), ("1 / 2", 0)):
        room.controller.find_next()
        assert room.events.isVisible()
        assert room.events.currentIndex().row() == row
        assert room.bar.matches.text() == place


def test_what_is_not_there_is_said(room: Room, qtbot: QtBot) -> None:
    room.bar.filter.setText("gamma")
    with qtbot.waitSignal(room.controller.message) as said:
        room.controller.find_next()
    assert "gamma" in said.args[0]
    with qtbot.waitSignal(room.controller.message) as said:
        room.controller.go_to_first_error()
    assert "error" in said.args[0]


def test_an_error_that_may_stand_before_what_is_shown_is_not_denied(
    room: Room, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer() -> str:
        with qtbot.waitSignal(room.controller.message) as said:
            room.controller.go_to_first_error()
        assert isinstance(said.args[0], str)
        return said.args[0]

    room.controller.add_output(0, ["fine"])
    assert answer() == "There is no error here."
    room.log.note_skipped_lines()
    room.controller.add_output(0, ["fine"])
    assert "log files" in answer()
    room.controller.clear()
    monkeypatch.setattr(log_view, "MAX_LINES", 5)
    room.controller.add_output(0, ["fine"] * 5)
    assert "log files" not in answer()
    room.controller.add_output(0, ["fine"])
    assert "log files" in answer()
    room.tabs.setCurrentWidget(room.events)
    assert "log files" not in answer()


def test_the_first_error_is_found_behind_a_filter(room: Room) -> None:
    room.controller.add_output(0, ["fine", *["line"] * 50])
    room.controller.add_output(1, ["Traceback (most recent call last):", "ValueError: no"])
    room.controller.add_output(0, ["line"] * 50)
    room.bar.filter.setText("fine")
    room.bar.first_error.click()
    assert room.selected().endswith("Traceback (most recent call last):")
    assert room.bar.filter.text() == ""


def test_in_the_table_it_is_the_first_event_that_says_so(room: Room) -> None:
    room.controller.add_events([SAVED, STARTED, FAILED])
    room.tabs.setCurrentWidget(room.events)
    room.bar.first_error.click()
    assert room.events.currentIndex().row() == 2
    assert room.events.isVisible()


@pytest.mark.parametrize(
    ("line", "is_one"),
    [
        ("Traceback (most recent call last):", True),
        ("torch.OutOfMemoryError: CUDA out of memory", True),
        ("2026-01-01 ERROR disk", True),
        ("Segmentation fault (core dumped)", True),
        ("validation error 0.31", False),
        ("E0000 00:00:1 cuda_dnn.cc] Unable to register cuDNN factory", False),
        ("mean absolute error: 0.5", False),
    ],
)
def test_which_lines_speak_of_an_error(line: str, is_one: bool) -> None:
    assert is_error(output_line(0, line).text) is is_one


def test_the_table_of_a_chatty_run_is_bounded(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_model, "MAX_ROWS", 5)
    for _ in range(4):
        room.events.append([SAVED, STARTED])
    room.events.append([FAILED])
    model = room.events.model()
    assert model.rowCount() == 5
    assert "It broke." in model.index(4, 5).data()
