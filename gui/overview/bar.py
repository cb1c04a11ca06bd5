"""The bar above the tab Overview."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QCheckBox, QHBoxLayout, QPushButton, QWidget

from gui.style.theme import icon, theme_of


class OverviewBar(QWidget):
    """What is shown of the settings, and the overview as a text."""

    only_changed = Signal(bool)
    copy_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.only = QCheckBox("Only what differs")
        self.only.setToolTip(
            "Show only the settings that differ from their default or from the other run."
        )
        self.copy = QPushButton("Copy as Markdown")
        self.copy.setObjectName("low")
        self.copy.setAutoDefault(False)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 1, 3, 0)  # the height of the tab bar
        layout.setSpacing(10)
        layout.addStretch(1)
        for widget in (self.only, self.copy):
            layout.addWidget(widget, 0, Qt.AlignmentFlag.AlignVCenter)
        self.only.toggled.connect(self.only_changed)
        self.copy.clicked.connect(self.copy_wanted)
        self._apply_style()

    def changeEvent(self, event: QEvent) -> None:
        """Follow the theme."""
        super().changeEvent(event)
        if event.type() is QEvent.Type.PaletteChange:
            self._apply_style()

    def _apply_style(self) -> None:
        self.copy.setIcon(icon("copy", theme_of(QGuiApplication.palette()).text))
