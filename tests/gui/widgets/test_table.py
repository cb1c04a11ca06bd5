"""What all tables do alike."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from pytestqt.qtbot import QtBot

from gui.widgets.table import BEST, Table, TableModel


class Words(TableModel[str, int]):
    """Each column has one letter of a word; the best one has a star."""

    def title(self, column: int) -> str:
        return f"Letter {column}"

    def text(self, row: str, column: int) -> str:
        return f"{BEST}{row[column]}" if row == "best" else row[column]


def made(qtbot: QtBot, *, single: bool) -> Table:
    table, model = Table("Words", 20, single=single), Words()
    qtbot.addWidget(table)
    model.setParent(table)
    model.rows, model.columns = ["best", "word"], range(2)
    model.show_sort("1", descending=True)
    table.setModel(model)
    table.add_copy("Copy rows")
    return table


@pytest.mark.parametrize(
    ("single", "copied"), [(True, ["b\te", "w\to"]), (False, ["w\to"])], ids=["current", "chosen"]
)
def test_chosen_rows_are_copied_unmarked(qtbot: QtBot, single: bool, copied: list[str]) -> None:
    table = made(qtbot, single=single)
    table.selectRow(1)
    table.actions()[0].trigger()
    lines = QGuiApplication.clipboard().text().splitlines()
    assert lines == ["Letter 0\tLetter 1", *copied]


def test_a_cell_is_read_with_its_title_and_a_title_says_how_it_is_sorted(qtbot: QtBot) -> None:
    table = made(qtbot, single=True)
    model = table.model()
    assert model.index(1, 0).data(Qt.ItemDataRole.AccessibleTextRole) == "Letter 0: w"
    titles = [model.headerData(each, Qt.Orientation.Horizontal) for each in range(2)]
    assert titles == ["Letter 0", "Letter 1 ▾"]
