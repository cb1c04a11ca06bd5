"""Buttons that keep their width when their text changes, so that their neighbours do not move."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QMenu, QPushButton, QToolButton

from gui.widgets.plain_text import plain_tip


class SteadyButton(QPushButton):
    """As wide as the longest of its texts."""

    def __init__(self, texts: Sequence[str], tip: str) -> None:
        """`texts` are all texts that the button may show, beginning with the first."""
        super().__init__(texts[0])
        self._texts = texts
        self.setToolTip(plain_tip(tip))

    def sizeHint(self) -> QSize:
        """The size with the longest text."""
        hint, longest = super().sizeHint(), max(self._width(text) for text in self._texts)
        return hint + QSize(longest - self._width(self.text()), 0)

    def minimumSizeHint(self) -> QSize:
        """The button never shrinks below its text."""
        return self.sizeHint()

    def _width(self, text: str) -> int:
        """The width that Qt uses for the size hint."""
        return self.fontMetrics().size(Qt.TextFlag.TextShowMnemonic, text).width()


class MoreButton(QToolButton):
    """A narrow button beside another one, whose menu has variants of the same action."""

    def __init__(self, tip: str) -> None:
        super().__init__()
        self.setObjectName("more")
        self.setToolTip(plain_tip(tip))
        self.setAccessibleName(tip)
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.setIconSize(QSize(12, 12))
        menu = QMenu(self)
        menu.setToolTipsVisible(True)
        self.setMenu(menu)
