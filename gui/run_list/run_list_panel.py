"""The card RUNS: the list, and above it the comparison button, the search and the menu."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QComboBox, QLineEdit, QMenu, QPushButton, QToolButton, QWidget

from engine.runs.run_info import RunInfo, UnreadableRun
from gui.run_list.branches import as_tree
from gui.run_list.chosen_runs import ChosenRuns
from gui.run_list.filter_sort import (
    ORDER_NAMES,
    SortOrder,
    matching,
    sorted_runs,
    unreadable_matching,
)
from gui.run_list.run_delegate import ROW_HEIGHT
from gui.run_list.run_list_view import RunListView
from gui.style.theme import Theme, icon
from gui.widgets.boxes import column_of, row_of
from gui.widgets.icon_button import IconButton
from gui.widgets.plain_text import Label
from gui.widgets.steady_button import SteadyButton, let_go_of_menu

_MIN_ROWS = 3
"""Minimum number of visible rows."""

_WIDEST_COUNT = 88
"""The button Compare has room for such a number of runs."""

_SPACING = 4
"""Logical pixels between two parts."""

_FRAME_WIDTH = 1
"""Width of the focus frame, in pixels."""


class RunListPanel(QWidget):
    """Searches and sorts the list, and offers the actions on several runs."""

    undo_clicked = Signal()
    """The user wants to restore the runs that were deleted last."""

    def __init__(
        self, run_list: RunListView, chosen: ChosenRuns, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._list = run_list
        self._chosen = chosen
        self._given = 0
        self._infos: list[RunInfo] = []
        self._unreadable: list[UnreadableRun] = []
        self.search_button = IconButton(
            "magnifying-glass", "Search and sort", "Search the runs, or change their order"
        )
        self.search_button.setCheckable(True)
        self.search = QLineEdit()
        self.search.setPlaceholderText("Search runs…")
        self.search.setAccessibleName("Search runs")
        self.search.setToolTip("Words of the name, recipe, strategy, state, tags or note")
        self.search.setClearButtonEnabled(True)
        self.order = QComboBox()
        for order, text in ORDER_NAMES.items():
            self.order.addItem(text, order)
        self.order.setAccessibleName("Order of the runs")
        self.order.setToolTip("Sort by")
        self._is_listed = False
        self.empty = Label("Reading the runs…", objectName="mut")
        self.empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.compare = SteadyButton(
            ["Compare", f"Compare {_WIDEST_COUNT}"],
            "Choose two or more runs by the boxes in the list",
        )
        self.compare.setObjectName("low")
        self.compare.setCheckable(True)
        self.count = Label(objectName="note")
        self.more = QToolButton()
        self.more.setObjectName("more")
        self.more.setAccessibleName("More actions on the runs")
        self.more.setIconSize(QSize(16, 16))
        self.more.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.import_runs = QAction("Import runs…", self)
        self.clear_choice = QAction("Remove all runs from the comparison", self)
        self.clear_choice.triggered.connect(lambda: chosen.choose(()))
        self.empty_trash = QAction("Empty trash…", self)
        menu = QMenu(self.more)
        menu.addAction(self.import_runs)
        menu.addAction(self.clear_choice)
        self.restore_menu = menu.addMenu("Restore from the trash")
        menu.addAction(self.empty_trash)
        self.empty_elsewhere = menu.addMenu("Empty the trash of")
        self.empty_elsewhere.menuAction().setVisible(False)
        self.more.setMenu(menu)
        let_go_of_menu(self.more)
        self.undo_bar = _UndoBar()
        self.undo_bar.undo.clicked.connect(self.undo_clicked)
        self._build_layout()
        self._show_empty(True)
        self.search.textChanged.connect(self._update_list)
        self.order.currentIndexChanged.connect(self._update_list)
        self.search_button.toggled.connect(self._show_search)
        self.search_button.clicked.connect(lambda shown: self._focus_search() if shown else None)
        self._show_search(False)
        run_list.toggled.connect(chosen.toggle)
        run_list.search_wanted.connect(self._focus_search)
        chosen.changed.connect(self._show_choice)
        self.set_theme(theme)
        self._show_choice()

    def show_runs(self, infos: list[RunInfo]) -> None:
        """Update the list of all readable runs, newest first."""
        if self._is_listed and infos == self._infos:
            return
        self._is_listed = True
        self._infos = infos
        self._chosen.follow_list(info.id for info in infos)
        self._update_list()

    def show_unreadable(self, runs: list[UnreadableRun]) -> None:
        """Update the unreadable runs, which are listed below the others."""
        if runs != self._unreadable:
            self._unreadable = runs
            self._update_list()

    def runs(self) -> list[RunInfo]:
        """All readable runs, newest first."""
        return self._infos

    def known_tags(self) -> list[str]:
        """All tags in use."""
        return sorted({tag for info in self._infos for tag in info.notes.tags}, key=str.casefold)

    def set_theme(self, theme: Theme) -> None:
        """Draw the icon in the colours of `theme`."""
        self.more.setIcon(icon("dots-three-vertical", theme.muted))

    def _show_search(self, shown: bool) -> None:
        """Show or hide search and sort order; hiding them lists all runs, newest first."""
        self._search_line.setVisible(shown)
        if not shown:
            self.search.clear()
            self.order.setCurrentIndex(0)

    def _focus_search(self) -> None:
        self.search_button.setChecked(True)
        self.search.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.search.selectAll()

    def _update_list(self) -> None:
        search_text = self.search.text()
        found = matching(self._infos, search_text)
        unreadable = unreadable_matching(self._unreadable, search_text)
        order = SortOrder(self.order.currentData())
        is_tree = order is SortOrder.NEWEST
        self._list.show_runs(*(as_tree(found) if is_tree else (sorted_runs(found, order), {})))
        self._list.show_unreadable(unreadable)
        total, count = len(self._infos) + len(self._unreadable), len(found) + len(unreadable)
        if self._is_listed:
            none, no_match = "No runs yet.", "No run matches."
            self.empty.setText(no_match if total else none)
        self._show_empty(not count)
        some = f"{count} of {total}"
        self.count.setText(f"{total:,}" if count == total else some)

    def _show_choice(self) -> None:
        colours = self._chosen.colours()
        self._list.show_chosen(colours, self._chosen.baseline)
        enough = len(colours) > 1
        self.compare.setText(f"Compare {len(colours)}" if colours else "Compare")
        self.compare.setEnabled(enough)
        self.clear_choice.setEnabled(bool(colours))
        if not enough:
            self.compare.setChecked(False)

    @property
    def given_room(self) -> int:
        """What `give_room` has set."""
        return self._given

    def give_room(self, pixels: int) -> None:
        """Need so many logical pixels less than for three runs; one run stays in sight."""
        if pixels != self._given:
            self._given = pixels
            self._set_least_height()

    def _show_empty(self, is_empty: bool) -> None:
        self.empty.setVisible(is_empty)
        self._set_least_height()

    def _set_least_height(self) -> None:
        """Need the same height with and without runs."""
        is_empty = not self.empty.isHidden()
        taken = self.empty.sizeHint().height() + _SPACING if is_empty else 0
        least = _MIN_ROWS * ROW_HEIGHT - taken - self._given
        self._list.setMinimumHeight(max(ROW_HEIGHT, least) + 2 * _FRAME_WIDTH)

    def _build_layout(self) -> None:
        title = Label("RUNS", objectName="h")
        top = row_of(title, (self.count, 1), self.search_button, self.compare, self.more, spacing=6)
        self._search_line = QWidget()
        row_of(
            (self.search, 1), self.order, parent=self._search_line, margins=(0, 0, 4, 0), spacing=6
        )
        column_of(
            top,
            self._search_line,
            self.undo_bar,
            self.empty,
            (self._list, 1),
            parent=self,
            margins=0,
            spacing=_SPACING,
        )


class _UndoBar(QWidget):
    """Says which runs were deleted last, and offers to restore them."""

    def __init__(self) -> None:
        super().__init__()
        self.text = Label(objectName="note", wordWrap=True)
        self.undo = QPushButton("Undo")
        row_of((self.text, 1), self.undo, parent=self, margins=0)
        self.hide()

    def show_text(self, sentence: str) -> None:
        """Show `sentence` with the button; hide the bar if it is empty."""
        self.text.setText(sentence)
        self.setVisible(bool(sentence))
