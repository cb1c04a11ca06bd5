"""The dialog with all keyboard shortcuts, and the shortcut from pane to pane."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import (
    QApplication,
    QDialog,
    QDialogButtonBox,
    QFrame,
    QGridLayout,
    QMenu,
    QScrollArea,
    QWidget,
)

from gui.widgets.boxes import column_of, row_of
from gui.widgets.plain_text import Label
from gui.window.tab_order import first_tab_stop

_COLUMNS = 3

Group = tuple[str, list[tuple[str, str]]]
"""A heading, and the keys with their effects: `("Run", [("Ctrl+R", "Start run")])`."""

_QT_SHORTCUTS = [
    ("Tab", "From field to field"),
    ("Space", "Press the button, or tick the box"),
    ("Alt+Enter", "In a legend: that curve alone, or all again"),
    ("F10, Alt", "Open the menu"),
    ("Alt+Letter", "Underlined letters: to that field or menu"),
]
"""What Qt implements, without an action."""


def shortcuts(window: QWidget, menus: Sequence[QMenu]) -> list[Group]:
    """Return the shortcuts of all actions of `window`, by its `menus`, then by its parts."""
    groups = {_plain(menu.title()): menu.actions() for menu in menus}
    listed = {action for actions in groups.values() for action in actions}
    for action in every_action(window):
        if action.shortcuts() and action not in listed:
            groups.setdefault(_owner(action), []).append(action)
    rows = {
        title: [(_keys(action), _plain(action.text())) for action in actions if action.shortcuts()]
        for title, actions in groups.items()
    }
    return [(title, found) for title, found in rows.items() if found]


def every_action(window: QWidget) -> list[QAction]:
    """Return the actions of the window and of all its parts without duplicates."""
    parts = [window, *window.findChildren(QWidget)]
    return list(dict.fromkeys(action for part in parts for action in part.actions()))


def _owner(action: QAction) -> str:
    """Return the accessible name of the widget that the action belongs to."""
    for part in [*action.associatedObjects(), action.parent()]:
        while part is not None:
            if isinstance(part, QWidget) and part.accessibleName():
                return part.accessibleName()
            part = part.parent()
    return ""


def _plain(text: str) -> str:
    return text.replace("&", "").rstrip("…")


class ShortcutsDialog(QDialog):
    """The dialog with all shortcuts, which the key "?" opens."""

    def __init__(self, window: QWidget, menus: Sequence[QMenu]) -> None:
        """`menus` of `window`."""
        super().__init__(window)
        self.setWindowTitle("Keyboard shortcuts")
        content = QWidget()
        columns = row_of(parent=content, margins=0, spacing=28)
        for groups in _in_columns([*shortcuts(window, menus), ("Everywhere", _QT_SHORTCUTS)]):
            columns.addLayout(_column(groups))
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.reject)
        column_of(_Keys(content), buttons, parent=self, margins=(20, 16, 20, 14), spacing=14)
        self.resize(self.sizeHint())  # Qt gives a new dialog two thirds of the screen at most


class _Keys(QScrollArea):
    """Wants the room that its content needs; scrolls where the screen has less."""

    def __init__(self, content: QWidget) -> None:
        super().__init__()
        self._content = content
        content.setObjectName("content")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setWidget(content)
        self.setAccessibleName("Keyboard shortcuts")

    def sizeHint(self) -> QSize:
        """The size of the content, at most that of the screen without a margin."""
        usable = self.screen().availableSize() - QSize(120, 160)
        wanted = self._content.sizeHint()
        if wanted.height() > usable.height():
            wanted += QSize(self.verticalScrollBar().sizeHint().width(), 0)
        return wanted.boundedTo(usable)


def _in_columns(groups: list[Group]) -> list[list[Group]]:
    """Split `groups`, in their order, into columns so that the highest column is low."""

    def columns(cuts: tuple[int, ...]) -> list[list[Group]]:
        return [groups[begin:end] for begin, end in pairwise((0, *cuts, len(groups)))]

    def height(cuts: tuple[int, ...]) -> int:
        return max(sum(len(rows) + 2 for _, rows in column) for column in columns(cuts))

    return columns(min(combinations(range(len(groups) + 1), _COLUMNS - 1), key=height))


def _column(groups: list[Group]) -> QGridLayout:
    grid = QGridLayout()
    grid.setHorizontalSpacing(16)
    grid.setVerticalSpacing(1)
    for title, rows in groups:
        heading = Label(title.upper(), objectName="h")
        if grid.count():
            grid.setRowMinimumHeight(grid.rowCount(), 8)
        grid.addWidget(heading, grid.rowCount(), 0, 1, 2)
        for keys, effect in rows:
            row = grid.rowCount()
            key = Label(keys, objectName="key")
            grid.addWidget(key, row, 0, Qt.AlignmentFlag.AlignLeft)
            grid.addWidget(Label(effect), row, 1)
    grid.setRowStretch(grid.rowCount(), 1)
    return grid


def go_to_pane(panes: Sequence[QWidget], step: int) -> None:
    """Move the keyboard focus to the next (`step` 1) or previous (-1) pane."""
    focused = QApplication.focusWidget()
    current = next(
        (index for index, pane in enumerate(panes) if focused and pane.isAncestorOf(focused)),
        next((index for index, pane in enumerate(panes) if pane is focused), None),
    )
    count = len(panes)
    start = current if current is not None else (-1 if step > 0 else 0)
    for offset in range(1, count + 1):
        pane = panes[(start + step * offset) % count]
        if pane.isVisible() and (target := first_tab_stop(pane)):
            target.setFocus(Qt.FocusReason.ShortcutFocusReason)
            return


def _keys(action: QAction) -> str:
    form = QKeySequence.SequenceFormat.NativeText
    return ", ".join(keys.toString(form) for keys in action.shortcuts())
