"""The bar above the tab Media: a choice of kinds, and a search."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QWidget

from gui.widgets.entry_fields import Combo

IMAGES, HISTOGRAMS = "images", "histograms"


class MediaBar(QWidget):
    """Decides which series the tab shows."""

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.kinds = Combo()
        self.kinds.setAccessibleName("Kind of the series")
        self.kinds.addItem("Images and histograms", "")
        self.kinds.addItem("Images", IMAGES)
        self.kinds.addItem("Histograms", HISTOGRAMS)
        self.kinds.setMinimumContentsLength(18)
        self.search = QLineEdit()
        self.search.setPlaceholderText("Find a series…  (Ctrl+F)")
        self.search.setAccessibleName("Search of a series")
        self.search.setClearButtonEnabled(True)
        self.search.setMinimumWidth(96)
        self.search.setMaximumWidth(220)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 1, 3, 0)  # the height of the tab bar
        layout.setSpacing(8)
        layout.addStretch(1)
        layout.addWidget(self.kinds, 0, Qt.AlignmentFlag.AlignVCenter)
        layout.addWidget(self.search, 100, Qt.AlignmentFlag.AlignVCenter)  # to its greatest width
        self.kinds.currentIndexChanged.connect(lambda _: self.changed.emit())
        self.search.textChanged.connect(lambda _: self.changed.emit())

    def accepts(self, kind: str, name: str) -> bool:
        """Whether the series `name` of this kind is wanted."""
        wanted = self.kinds.currentData()
        return wanted in ("", kind) and self.search.text().casefold() in name.casefold()

    def show_kinds(self, has_images: bool, has_histograms: bool) -> None:
        """Offer the choice of kinds while there are both."""
        self.kinds.setVisible(has_images and has_histograms)
        if not (has_images and has_histograms):
            self.kinds.setCurrentIndex(0)
