"""Parts of a page below each other, with edges that can be dragged; and the card around a part."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QByteArray, Qt
from PySide6.QtWidgets import QFrame, QSplitter, QVBoxLayout, QWidget

from gui.widgets.panel_settings import PanelSettings

_KEY = "splitter"
_HANDLE = 8


class StackedParts(QSplitter):
    """Remembers the heights that the user gives to the parts."""

    def __init__(
        self,
        parts: Sequence[QWidget],
        heights: Sequence[int],
        shares: Sequence[int],
        settings: PanelSettings,
    ) -> None:
        """`heights` are the usual ones; `shares` distribute what the page has more or less."""
        super().__init__(Qt.Orientation.Vertical)
        self._heights, self._settings = list(heights), settings
        for place, (part, share) in enumerate(zip(parts, shares, strict=True)):
            self.addWidget(part)
            self.setStretchFactor(place, share)
        self.setHandleWidth(_HANDLE)
        self.setChildrenCollapsible(False)
        self.setSizes(self._heights)
        stored = settings.value(_KEY)
        if isinstance(stored, QByteArray):
            self.restoreState(stored)
        self.splitterMoved.connect(lambda: settings.set_value(_KEY, self.saveState()))

    def reset(self) -> None:
        """Give all parts their usual heights."""
        self.setSizes(self._heights)
        self._settings.remove(_KEY)


def card(content: QWidget, margins: tuple[int, int, int, int] = (4, 4, 4, 4)) -> QFrame:
    """Return a card around `content`."""
    made = QFrame()
    made.setObjectName("card")
    inside = QVBoxLayout(made)
    inside.setContentsMargins(*margins)
    inside.addWidget(content)
    return made
