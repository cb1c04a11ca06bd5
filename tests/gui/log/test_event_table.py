"""The table of a run's events."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QItemSelectionModel, Qt
from PySide6.QtGui import QGuiApplication
from pytestqt.modeltest import ModelTester
from pytestqt.qtbot import QtBot

from engine.messages.events import CheckpointSaved, WorkerStarted
from engine.runs.store.store_reader import StoredEvent
from gui.log.event_model import EventModel
from gui.log.event_table import EventTable

EVENTS = [
    StoredEvent(1, 0.25, WorkerStarted(1, 4711, ("cpu:1",))),
    StoredEvent(2, 0.5, CheckpointSaved("step-5", 5, 1, 1024, 0.1)),
]


@pytest.fixture
def table(qtbot: QtBot) -> EventTable:
    table = EventTable()
    qtbot.addWidget(table)
    return table


def cells(table: EventTable, row: int) -> list[str]:
    model = table.model()
    return [str(model.index(row, column).data()) for column in range(model.columnCount())]


def test_a_row_says_when_what_who_and_in_words(table: EventTable) -> None:
    table.append(EVENTS)
    time, what, step, rank, level, text = cells(table, 0)
    assert time.endswith(".250")
    assert (what, step, rank, level) == ("Worker started", "", "1", "INFO")
    assert "4711" in text
    assert cells(table, 1)[1:4] == ["Checkpoint saved", "5", ""]
    header = table.model().headerData(1, Qt.Orientation.Horizontal)
    assert header == "What"


def test_searching_without_hiding_goes_round(table: EventTable) -> None:
    table.append([*EVENTS, *EVENTS, *EVENTS])
    table.show()
    said: list[tuple[int, int]] = []
    table.matches.connect(lambda place, count: said.append((place, count)))
    table.set_only_matches(False)
    table.set_filter("cpu:1")
    assert table.model().rowCount() == 6
    assert said[-1] == (0, 3)
    rows = []
    for _ in range(4):
        assert table.find_again()
        rows.append(table.currentIndex().row())
    assert rows == [0, 2, 4, 0]
    assert table.find_again(backwards=True)
    assert table.currentIndex().row() == 4
    assert said[-1] == (3, 3)
    table.set_filter("nowhere")
    assert not table.find_again()


def test_filter_clear_and_copy(table: EventTable) -> None:
    table.append(EVENTS)
    flags = QItemSelectionModel.SelectionFlag
    # `selectRow` would heed the modifier that some test pressed last.
    table.selectionModel().select(table.model().index(1, 0), flags.ClearAndSelect | flags.Rows)
    table.copy.trigger()
    head, row = QGuiApplication.clipboard().text().split("\n")
    assert head.split("\t") == ["Time", "What", "Step", "Rank", "Level", "Text"]
    assert row.split("\t") == cells(table, 1)
    table.clear()
    table.append(EVENTS)
    table.set_filter("CHECKPOINT")
    assert table.model().rowCount() == 1
    table.set_filter("")
    assert table.model().rowCount() == 2
    table.clear()
    assert table.model().rowCount() == 0


def test_the_model_keeps_qts_rules(qtmodeltester: ModelTester) -> None:
    model = EventModel()
    qtmodeltester.check(model)  # type: ignore[no-untyped-call]
    model.append(EVENTS)
    model.append(EVENTS)
    model.clear()
