"""The list in which the user chooses the columns of the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QFrame, QLineEdit, QPushButton, QTreeWidget, QTreeWidgetItem, QWidget

from engine.runs.table.columns import Column, Part
from gui.runs_table.arrangement import is_curve
from gui.runs_table.cell_texts import header_text
from gui.widgets.boxes import STRETCH, column_of, row_of
from gui.widgets.plain_text import plain_tip

_SIZE = (330, 420)
_NAME = Qt.ItemDataRole.UserRole


class ColumnChoice(QFrame):
    """Opens below a button; each tick counts at once."""

    def __init__(
        self,
        columns: Mapping[str, Column],
        shown: Sequence[str],
        choose: Callable[[list[str]], None],
        reset: Callable[[], None],
        parent: QWidget,
    ) -> None:
        """`choose` gets the names of the shown columns, new ones at the end."""
        super().__init__(parent, Qt.WindowType.Popup)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setObjectName("card")
        self.resize(*_SIZE)
        self._shown = list(shown)
        self._choose = choose
        self.search = QLineEdit()
        self.search.setPlaceholderText("Search columns…")
        self.search.setAccessibleName("Search columns")
        self.search.setClearButtonEnabled(True)
        self.search.textChanged.connect(self._filter)
        self.tree = QTreeWidget()
        self.tree.setHeaderHidden(True)
        self.tree.setRootIsDecorated(False)
        self.tree.setIndentation(12)
        self.tree.setAccessibleName("Columns of the table")
        self._fill(columns)
        self.tree.itemChanged.connect(self._changed)
        again = QPushButton("Default columns")
        again.clicked.connect(reset)
        again.clicked.connect(self.close)
        close = QPushButton("Close")
        close.clicked.connect(self.close)
        buttons = row_of(again, STRETCH, close)
        column_of(self.search, (self.tree, 1), buttons, parent=self, margins=(8, 8, 8, 8))

    def open_below(self, widget: QWidget) -> None:
        """Show the list at the lower edge of `widget`, within its window."""
        window = widget.window().geometry()
        place = widget.mapToGlobal(QPoint(0, widget.height() + 2))
        place.setX(max(window.left(), min(place.x(), window.right() - self.width() - 8)))
        bottom = window.bottom() - 8
        self.resize(self.width(), max(160, min(_SIZE[1], bottom - place.y())))
        self.move(place)
        self.show()
        self.search.setFocus()

    def _fill(self, columns: Mapping[str, Column]) -> None:
        parts: dict[str, list[Column]] = {}
        for column in columns.values():
            parts.setdefault(part_name(column), []).append(column)
        for name, members in parts.items():
            heading = QTreeWidgetItem(self.tree, [name])
            heading.setFlags(Qt.ItemFlag.ItemIsEnabled)
            for column in members:
                item = QTreeWidgetItem(heading, [header_text(column)])
                item.setFlags(
                    Qt.ItemFlag.ItemIsEnabled
                    | Qt.ItemFlag.ItemIsSelectable
                    | Qt.ItemFlag.ItemIsUserCheckable
                )
                is_shown = column.name in self._shown
                item.setCheckState(
                    0, Qt.CheckState.Checked if is_shown else Qt.CheckState.Unchecked
                )
                item.setData(0, _NAME, column.name)
                item.setToolTip(0, plain_tip(column.name))
            heading.setExpanded(True)

    def _changed(self, item: QTreeWidgetItem) -> None:
        name = item.data(0, _NAME)
        if item.checkState(0) is Qt.CheckState.Checked:
            if name not in self._shown:
                self._shown.append(name)
        elif name in self._shown and len(self._shown) > 1:
            self._shown.remove(name)
        self._choose(list(self._shown))

    def _filter(self, text: str) -> None:
        words = text.casefold().split()
        for number in range(self.tree.topLevelItemCount()):
            heading = self.tree.topLevelItem(number)
            assert heading is not None
            found = False
            for place in range(heading.childCount()):
                item = heading.child(place)
                assert item is not None
                said = f"{item.text(0)} {item.data(0, _NAME)}".casefold()
                is_found = all(word in said for word in words)
                item.setHidden(not is_found)
                found = found or is_found
            heading.setHidden(not found)


def part_name(column: Column) -> str:
    """Return the heading above a column."""
    if is_curve(column):
        return "Curves of metrics"
    return {
        Part.RUN: "Run",
        Part.SETTINGS: "Settings",
        Part.RECIPE: "Settings of recipes",
        Part.OPTIONS: "Options of scripts",
        Part.LAST: "Metrics, last value",
        Part.BEST: "Metrics, best value",
    }[column.part]
