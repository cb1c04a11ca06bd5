"""The list of runs with its controllers, for the tests of the list and of its actions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from PySide6.QtCore import QItemSelectionModel
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from engine.facts.run_facts import Parent, write_parent
from engine.runs.run_index import RunIndex
from gui.bridge.background import Background
from gui.run_list.chosen_runs import ChosenRuns
from gui.run_list.run_list_actions import RunListActions
from gui.run_list.run_list_model import ID
from gui.run_list.run_list_panel import RunListPanel
from gui.run_list.run_list_view import RunListView
from gui.style.theme import ThemeController
from tests.support.recorded_runs import record_epochs


class Room(NamedTuple):
    """The list of runs with its controllers."""

    history: RunListView
    panel: RunListPanel
    chosen: ChosenRuns
    actions: RunListActions
    window: QWidget

    def refresh(self) -> None:
        self.panel.show_runs(RunIndex().runs())

    def listed(self) -> list[str]:
        model = self.history.model()
        return [str(model.index(row, 0).data(ID)) for row in range(model.rowCount())]


@pytest.fixture
def room(qtbot: QtBot, qapp: QApplication) -> Iterator[Room]:
    window, background, chosen = QWidget(), Background(), ChosenRuns()
    theme = ThemeController(qapp).current
    history = RunListView(theme)
    panel = RunListPanel(history, chosen, theme, window)
    actions = RunListActions(history, panel, chosen, background, window)
    room = Room(history, panel, chosen, actions, window)
    actions.changed.connect(room.refresh)
    qtbot.addWidget(window)
    panel.resize(300, 400)
    window.show()
    history.setFocus()
    yield room
    background.finish()


def record_branches(*parents: str) -> None:
    """Record runs, each with the run from which it goes on; empty: from none."""
    for parent in parents:
        folder = record_epochs("finished", (0.5,))
        if parent:
            write_parent(folder, Parent(run=parent, checkpoint="step-00000300"))


def select(room: Room, *run_ids: str) -> None:
    room.history.clearSelection()
    for row, run_id in enumerate(room.listed()):
        if run_id in run_ids:
            index = room.history.model().index(row, 0)
            room.history.selectionModel().select(index, QItemSelectionModel.SelectionFlag.Select)
