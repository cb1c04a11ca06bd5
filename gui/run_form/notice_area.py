"""The place of the form for its sentences: problems, warnings, and how devices share the work."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QFontMetrics, QResizeEvent
from PySide6.QtWidgets import QFrame, QScrollArea, QSizePolicy, QWidget

from gui.widgets.boxes import column_of

_LINES = 2
"""Lines that are in sight. Their room is kept when they are empty, and more of them scroll: the
button below must not move under the pointer."""

_GAP = 1
_FONT_PIXELS = 11


class NoticeArea(QScrollArea):
    """Labels above each other; those without a text take no room."""

    def __init__(self, labels: Iterable[QWidget], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.content = QWidget()
        self.content.setObjectName("notices")
        self.content.setAccessibleName("Problems and notes")
        layout = column_of(*labels, parent=self.content, margins=0, spacing=_GAP)
        layout.addStretch(1)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.setWidgetResizable(True)
        self.setWidget(self.content)
        self.verticalScrollBar().rangeChanged.connect(self._overflow)

    def sizeHint(self) -> QSize:
        """The room of the lines in sight, whatever they say."""
        font = self.font()
        font.setPixelSize(_FONT_PIXELS)
        return QSize(0, _LINES * (QFontMetrics(font).height() + _GAP) - _GAP)

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def viewportEvent(self, event: QEvent) -> bool:
        """Show the first sentence when there are others."""
        if event.type() is QEvent.Type.LayoutRequest:
            self.verticalScrollBar().setValue(0)
        return super().viewportEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.verticalScrollBar().setSingleStep(self.sizeHint().height() // _LINES)

    def _overflow(self, _least: int, most: int) -> None:
        """Let the arrow keys scroll where there is more than what is in sight."""
        policy = Qt.FocusPolicy.TabFocus if most > 0 else Qt.FocusPolicy.NoFocus
        self.content.setFocusPolicy(policy)
