"""A small icon button in the muted colour of the theme."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QSize
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QToolButton

from gui.style.theme import icon, theme_of
from gui.widgets.plain_text import plain_tip

_SIZE = QSize(16, 16)


class IconButton(QToolButton):
    """`name` is for screen readers."""

    def __init__(self, picture: str, name: str, tip: str) -> None:
        """`picture` is a file name of resources/icons, without suffix."""
        super().__init__()
        self.setObjectName("quiet")
        self.setAccessibleName(name)
        self.setToolTip(plain_tip(tip))
        self.setIconSize(_SIZE)
        self._picture = picture
        self._apply_style()

    def set_picture(self, picture: str) -> None:
        """Show another picture."""
        self._picture = picture
        self._apply_style()

    def changeEvent(self, event: QEvent) -> None:
        """Follow the theme."""
        super().changeEvent(event)
        if event.type() is QEvent.Type.PaletteChange:
            self._apply_style()

    def _apply_style(self) -> None:
        self.setIcon(icon(self._picture, theme_of(QGuiApplication.palette()).muted))
