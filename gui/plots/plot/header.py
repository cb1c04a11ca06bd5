"""The header of a plot: its title, by which it is dragged, the legend with the values, what the
values belong to, and the menu."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QMimeData, QPoint, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QDrag, QMouseEvent, QResizeEvent
from PySide6.QtWidgets import (
    QApplication,
    QHBoxLayout,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from gui.plots.plot.legend import Legend
from gui.plots.plot.menu import PlotMenu
from gui.style.theme import Theme, icon
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.layouts.layout_order import widgets_in
from gui.widgets.plain_text import Label, plain_tip

DRAGGED = "application/x-traindeck-plot"
"""MIME type of a dragged plot: its title in UTF-8."""

_DRAG_IMAGE_WIDTH = 240

_LINE_HEIGHTS = (0, 190, 320)
"""From these heights of the plot on (logical pixels) the legend may have one, two and three lines
below the title: curves come first."""

_SPACING = 8
_LEAST_TITLE = 40
"""Logical pixels."""

_UNLIMITED = 16_777_215
"""Qt's value for an unlimited width."""

_USUAL_PLACE = "step 100,000"
"""The legend leaves room for a text of this width, so that it stays when the crosshair appears."""


class PlotHeader(QWidget):
    """Lays out the header: the legend stands beside the title where it fits, else below it."""

    double_clicked = Signal()

    def __init__(self, title: str, *, wide_legend: bool, sample: str) -> None:
        """`sample` is a usual value, as the legend shows it."""
        super().__init__()
        self._pressed_at: QPoint | None = None
        self._name = title
        self._wide_legend = wide_legend
        self._headline = ""
        self._place: Sequence[str] = ()
        self.title = ElidedLabel()
        self.title.setText(title)
        self.title.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        self.title.setMinimumWidth(_LEAST_TITLE)  # it gives way to the unit, which is short
        self.unit = Label()
        """The unit of the values, what each tick label is added to, and what is not drawn."""

        self.unit.setObjectName("mut")
        self.unit.hide()
        self.title.setObjectName("ttl")
        self.headline = Label(alignment=Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        # It takes what the others leave: a text that changes with the mouse must move nothing.
        self.headline.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.headline.setObjectName("note")
        keys = (
            "Drag to move the plot, double click to enlarge it.\n"
            "With the keyboard: Tab to the plot, ← and → read the values, M goes to the next "
            "mark, + and − zoom, F shows everything; ? lists all keys."
        )
        self.title.setToolTip(plain_tip(f"{title}\n{keys}"))
        self.legend = Legend(sample)
        self._arrange_soon = QTimer(self)  # many curves may come or go at once
        self._arrange_soon.setSingleShot(True)
        self._arrange_soon.setInterval(0)
        self._arrange_soon.timeout.connect(self.arrange)
        self.legend.grown.connect(self._arrange_soon.start)
        self.menu = PlotMenu(self)
        self.more = QToolButton()
        self.more.setObjectName("dots")
        self.more.setIconSize(QSize(16, 16))
        self.more.setToolTip("Move, hide, copy or save this plot")
        self.more.setAccessibleName(f"Actions for the plot of {title}")
        self.more.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.more.setMenu(self.menu)
        self._top = top = QHBoxLayout()
        top.setSpacing(_SPACING)
        top.addWidget(self.title)
        top.addWidget(self.unit)
        top.addWidget(self.headline, 1)
        top.addWidget(self.more)
        self._column = layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(2)
        layout.addLayout(top)
        layout.addWidget(self.legend)
        self._is_beside = False

    def show_unit(self, text: str, tip: str = "") -> None:
        """Show the unit of the values behind the title, and what is to be known of the axis; `tip`:
        why, in a sentence."""
        if text != self.unit.text():
            self.unit.setText(text)
            self.unit.setToolTip(plain_tip(tip))
            self.unit.setVisible(bool(text))
            self.arrange()

    def show_headline(self, text: str) -> None:
        """Show `text` at the right while the crosshair is hidden."""
        if text != self._headline:
            self._headline = text
            self.arrange()

    def show_place(self, forms: Sequence[str]) -> None:
        """Show at the right where the crosshair is: the first of `forms` that fits; without any,
        the headline again."""
        if forms != self._place:
            self._place = forms
            self._show_right()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Find the place of the legend for the new width."""
        super().resizeEvent(event)
        self.arrange()

    def arrange(self) -> None:
        """Put the legend beside the title if it fits there, else into lines below it."""
        room = self._room()
        card = self.parentWidget()
        height = card.height() if card is not None else 0
        lines = sum(height >= least for least in _LINE_HEIGHTS)
        right = self._width(max(self._headline, _USUAL_PLACE, key=self._width))
        beside = -1 if self._wide_legend else room - right - 2 * _SPACING
        is_beside = self.legend.fit(beside, self.width(), lines)
        if is_beside != self._is_beside:
            self._is_beside = is_beside
            if is_beside:
                self._column.removeWidget(self.legend)
                self._top.insertWidget(self._top.indexOf(self.headline), self.legend)
            else:
                self._top.removeWidget(self.legend)
                self._column.addWidget(self.legend)
                self.legend.setMinimumWidth(0)
                self.legend.setMaximumWidth(_UNLIMITED)
        if is_beside:
            self.legend.setFixedWidth(self.legend.used_width)
        self._show_right()

    def _show_right(self) -> None:
        """A text that does not fit is left out: of a number that is cut, another one is read."""
        room = self._room() - _SPACING
        if self._is_beside:
            room -= self.legend.used_width + _SPACING
        forms = self._place or (self._headline,)
        self.headline.setText(next((text for text in forms if self._width(text) <= room), ""))
        self.headline.setToolTip(plain_tip(forms[0]))

    def _room(self) -> int:
        """Return the width that title and menu leave for legend and headline."""
        taken = 0
        for widget in widgets_in(self._top, self):
            if widget in (self.legend, self.headline):
                continue
            if not widget.isHidden() or widget is self.more:
                taken += widget.sizeHint().width() + _SPACING
        return self.width() - taken

    def _width(self, text: str) -> int:
        self.headline.ensurePolished()
        return self.headline.fontMetrics().horizontalAdvance(text)

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of `theme`."""
        self.legend.set_theme(theme)
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
