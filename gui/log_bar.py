"""The bar above log and events: whose lines, which lines, and the way to the first error."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QCheckBox, QHBoxLayout, QLineEdit, QPushButton, QWidget

from engine.store_reader import StoredEvent
from gui.event_text import FROM_SUPERVISOR, event_text
from gui.fields import Combo


class LogBar(QWidget):
    """Says what is wanted; log and events do it."""

    rank_chosen = Signal(object)
    """int, -1 for the supervisor; None for everybody."""

    error_wanted = Signal()
    next_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.ranks = Combo()
        self.ranks.setAccessibleName(self.tr("Whose lines"))
        self.ranks.setToolTip(self.tr("Show only what one rank says"))
        self.only_matches = QCheckBox(self.tr("Only matches"))
        self.only_matches.setChecked(True)
        self.only_matches.setToolTip(
            self.tr("Hide the lines without the text; or else mark it: F3 goes to the next")
        )
        self.first_error = QPushButton(self.tr("First error"))
        self.first_error.setObjectName("small")
        self.first_error.setToolTip(self.tr("Go to the first line that speaks of an error (F8)"))
        self.filter = QLineEdit()
        self.filter.setPlaceholderText(self.tr("Filter…  (Ctrl+F)"))
        self.filter.setAccessibleName(self.tr("Filter of log and events"))
        self.filter.setClearButtonEnabled(True)
        self.filter.setFixedWidth(200)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 1, 3, 3)
        layout.setSpacing(8)
        for widget in (self.ranks, self.first_error, self.only_matches, self.filter):
            layout.addWidget(widget)
        self.forget()
        self.ranks.currentIndexChanged.connect(
            lambda: self.rank_chosen.emit(self.ranks.currentData())
        )
        self.first_error.clicked.connect(self.error_wanted)
        self.filter.returnPressed.connect(self.next_wanted)

    def forget(self) -> None:
        """Another run is shown: nobody has spoken yet. What is looked for stays."""
        self.ranks.blockSignals(True)
        self.ranks.clear()
        self.ranks.addItem(self.tr("All ranks"), None)
        self.ranks.addItem(self.tr("Supervisor"), FROM_SUPERVISOR)
        self.ranks.blockSignals(False)
        self.rank_chosen.emit(None)

    def take_output(self, rank: int, _lines: list[str]) -> None:
        """Offer `rank`: it has printed something."""
        self._offer(rank)

    def take_events(self, events: list[StoredEvent]) -> None:
        """Offer the ranks that `events` speak of."""
        for stored in events:
            self._offer(event_text(stored.event).rank)

    def show_everything(self) -> None:
        """Neither a rank nor a text is looked for."""
        self.ranks.setCurrentIndex(0)
        self.filter.clear()

    def _offer(self, rank: int) -> None:
        if self.ranks.findData(rank) >= 0:
            return
        known = [self.ranks.itemData(row) for row in range(1, self.ranks.count())]
        place = 1 + sum(each < rank for each in known)
        self.ranks.insertItem(place, self.tr("Rank {}").format(rank), rank)
