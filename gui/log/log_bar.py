"""The bar above log and events: choice of rank, filter, search and first error."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QSize, Qt, Signal
from PySide6.QtGui import QGuiApplication, QIcon, QResizeEvent
from PySide6.QtWidgets import QCheckBox, QHBoxLayout, QLineEdit, QSizePolicy, QToolButton, QWidget

from engine.runs.store.store_reader import StoredEvent
from gui.log.event_text import FROM_SUPERVISOR, event_text
from gui.style.theme import icon, theme_of
from gui.widgets.entry_fields import Combo
from gui.widgets.plain_text import Label, plain_tip
from gui.widgets.steady_button import SteadyButton

_MATCHES = "{:,} / {:,}"

_FILTER_WIDTH, _MIN_FILTER_WIDTH = 190, 96
_NARROW, _COMPACT_WIDTH = 640, 430
"""Logical pixels: a narrower bar shows less text, and this width is enough for it."""


class LogBar(QWidget):
    """Emits the choices of the user; LogController passes them to log and events."""

    rank_chosen = Signal(object)
    """A rank, -1 for the supervisor, or None for all ranks."""

    first_error_requested = Signal()
    next_requested = Signal()
    previous_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.ranks = Combo()
        self.ranks.setAccessibleName("Rank of the lines")
        self.ranks.setToolTip("Show only the output and events of one rank")
        self.only_matches = QCheckBox("Only matches")
        self.only_matches.setChecked(True)
        self.only_matches.setToolTip(
            "Hide the lines without the text. If not ticked: mark it, and F3 finds it"
        )
        self.first_error = SteadyButton(("First error",), "Go to the first error (F8)")
        self.first_error.setObjectName("small")
        self.filter = QLineEdit()
        self.filter.setPlaceholderText("Filter…  (Ctrl+F)")
        self.filter.setAccessibleName("Filter of log and events")
        self.filter.setClearButtonEnabled(True)
        self.filter.setMinimumWidth(_MIN_FILTER_WIDTH)
        self.filter.setMaximumWidth(_FILTER_WIDTH)
        self.filter.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.matches = Label(objectName="note")
        self.matches.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        widest = self.matches.fontMetrics().horizontalAdvance(_MATCHES.format(10_000, 10_000))
        self.matches.setMinimumWidth(widest)
        self.previous = _arrow(Qt.ArrowType.UpArrow, "Previous match (Shift+F3)")
        self.next = _arrow(Qt.ArrowType.DownArrow, "Next match (F3, or Return)")
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 1, 3, 0)  # the height of the tab bar
        layout.setSpacing(8)
        layout.addStretch(1)
        left = (self.ranks, self.first_error, self.only_matches)
        for widget in (*left, self.matches, self.previous, self.next, self.filter):
            layout.addWidget(widget, 0, Qt.AlignmentFlag.AlignVCenter)
        self._set_compact(False)
        self.show_matches(0, 0)
        self.clear_ranks()
        self.ranks.currentIndexChanged.connect(
            lambda: self.rank_chosen.emit(self.ranks.currentData())
        )
        self.first_error.clicked.connect(self.first_error_requested)
        self.filter.returnPressed.connect(self.next_requested)
        self.next.clicked.connect(self.next_requested)
        self.previous.clicked.connect(self.previous_requested)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Show less text, and keep no room for hidden buttons, where there is little room."""
        super().resizeEvent(event)
        self._set_compact(self.width() < _NARROW)

    def changeEvent(self, event: QEvent) -> None:
        """Draw the icon in the colours of a new theme."""
        super().changeEvent(event)
        if event.type() is QEvent.Type.PaletteChange and not self.first_error.icon().isNull():
            self._set_compact(True)

    def minimumSizeHint(self) -> QSize:
        """The size with little text."""
        hint = super().minimumSizeHint()
        return QSize(min(hint.width(), _COMPACT_WIDTH), hint.height())

    def _set_compact(self, compact: bool) -> None:
        self.first_error.set_compact(compact)
        for widget in (self.matches, self.previous, self.next):
            policy = widget.sizePolicy()
            policy.setRetainSizeWhenHidden(not compact)  # the others do not move
            widget.setSizePolicy(policy)
        self.matches.setVisible(not compact or bool(self.filter.text()))
        self.first_error.setIcon(
            icon("warning", theme_of(QGuiApplication.palette())) if compact else QIcon()
        )

    def clear_ranks(self) -> None:
        """Remove the ranks, because another run is shown; the filter stays."""
        self.ranks.blockSignals(True)
        self.ranks.clear()
        self.ranks.addItem("All ranks", None)
        self.ranks.addItem("Supervisor", FROM_SUPERVISOR)
        self.ranks.blockSignals(False)
        self.rank_chosen.emit(None)

    def add_events(self, events: list[StoredEvent]) -> None:
        """Offer the ranks of `events`."""
        for stored in events:
            self.offer_rank(event_text(stored.event).rank)

    def show_matches(self, place: int, count: int) -> None:
        """Show how many lines have the search text, and the number of the current one (0: none)."""
        if not self.filter.text():
            text = ""
        elif place:
            text = _MATCHES.format(place, count)
        else:
            text = f"{count:,}" if count else "nothing"
        self.matches.setText(text)
        self.matches.setVisible(self.width() >= _NARROW or bool(text))
        self.matches.setAccessibleName(f"Matches: {text}" if text else "")
        for button in (self.previous, self.next):
            button.setEnabled(count > 0)
            button.setVisible(bool(self.filter.text()))

    def show_everything(self) -> None:
        """Remove the choice of a rank and the filter."""
        self.ranks.setCurrentIndex(0)
        self.filter.clear()

    def offer_rank(self, rank: int) -> None:
        """Add `rank` to the choice of ranks, unless it is there."""
        if self.ranks.findData(rank) >= 0:
            return
        known = [self.ranks.itemData(row) for row in range(1, self.ranks.count())]
        place = 1 + sum(each < rank for each in known)
        self.ranks.insertItem(place, f"Rank {rank}", rank)


def _arrow(arrow: Qt.ArrowType, tip: str) -> QToolButton:
    button = QToolButton()
    button.setObjectName("dots")
    button.setArrowType(arrow)
    button.setToolTip(plain_tip(tip))
    button.setAccessibleName(tip)
    return button
