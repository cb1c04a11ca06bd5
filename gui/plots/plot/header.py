"""The header of a plot: its title, by which it is dragged, the legend, the newest value, the
menu."""

from __future__ import annotations

from PySide6.QtCore import QMimeData, QPoint, QSize, Qt, Signal
from PySide6.QtGui import QDrag, QMouseEvent
from PySide6.QtWidgets import QApplication, QHBoxLayout, QToolButton, QVBoxLayout, QWidget

from gui.plots.data.series_style import display_name
from gui.plots.plot.legend import MAX_NAMED, MAX_NAMED_ALONE, Legend
from gui.plots.plot.menu import PlotMenu
from gui.style.theme import Theme, icon
from gui.widgets.plain_text import Label

DRAGGED = "application/x-traindeck-plot"
"""MIME type of a dragged plot: its title in UTF-8."""

_DRAG_IMAGE_WIDTH = 240


class PlotHeader(QWidget):
    """Lays out the header; a wide one gives the legend a line of its own."""

    double_clicked = Signal()

    def __init__(self, title: str, *, wide_legend: bool) -> None:
        super().__init__()
        self._pressed_at: QPoint | None = None
        self._name = title
        self.title = Label(display_name(title))
        self.headline = Label()
        for label in (self.title, self.headline):
            label.setObjectName("ttl")
        self.title.setToolTip(
            self.tr(
                "Drag to move the plot, double click to enlarge it.\n"
                "With the keyboard: Tab to the plot, ← and → read the values, M goes to the next "
                "mark, + and − zoom, F shows everything; ? lists all keys."
            )
        )
        self.legend = Legend(MAX_NAMED_ALONE if wide_legend else MAX_NAMED)
        self.menu = PlotMenu(self)
        self.more = QToolButton()
        self.more.setObjectName("dots")
        self.more.setIconSize(QSize(16, 16))
        self.more.setToolTip(self.tr("Move, hide, copy or save this plot"))
        self.more.setAccessibleName(
            self.tr("Actions for the plot of {title}").format(title=display_name(title))
        )
        self.more.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.more.setMenu(self.menu)
        top = QHBoxLayout()
        top.setSpacing(8)
        top.addWidget(self.title)
        if wide_legend:
            top.addStretch(1)
        else:
            top.addWidget(self.legend, 1)
        top.addWidget(self.headline)
        top.addWidget(self.more)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(2)
        layout.addLayout(top)
        if wide_legend:
            layout.addWidget(self.legend)

    def set_theme(self, theme: Theme) -> None:
        """Draw the three dots in the colours of `theme`."""
        self.more.setIcon(icon("dots-three-vertical", theme.muted))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Remember where a drag may begin."""
        left = event.button() == Qt.MouseButton.LeftButton
        self._pressed_at = event.position().toPoint() if left else None

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Start to drag the plot when the mouse has moved far enough."""
        if self._pressed_at is None:
            return
        distance = event.position().toPoint() - self._pressed_at
        if distance.manhattanLength() >= QApplication.startDragDistance():
            self._pressed_at = None
            self._drag()

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Ask to enlarge the plot, or to show all plots again."""
        self._pressed_at = None
        self.double_clicked.emit()

    def _drag(self) -> None:
        data = QMimeData()
        data.setData(DRAGGED, self._name.encode())
        drag = QDrag(self)
        drag.setMimeData(data)
        card = (self.parentWidget() or self).grab()
        drag.setPixmap(card.scaledToWidth(min(_DRAG_IMAGE_WIDTH, card.width())))
        drag.exec(Qt.DropAction.MoveAction)
