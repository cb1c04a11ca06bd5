"""The row of five cards above the plots, with the key figures of a run."""

from __future__ import annotations

from itertools import product
from typing import Literal

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontMetrics,
    QGuiApplication,
    QPainter,
    QPaintEvent,
    QResizeEvent,
)
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QSizePolicy, QWidget

from gui.style.theme import theme_of
from gui.widgets.boxes import column_of, row_of
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.plain_text import Label, plain_tip

Tone = Literal["", "good", "best", "warning", "bad"]
"""The meaning of a note; the style sheet defines its colour."""

UNKNOWN = "–"

_UNIT_SIZE, _UNIT_GAP = 12, 4
"""Pixels: the letters of a unit, and their distance from the number."""

_LEAST_NOTE = 40
"""With less room, in logical pixels, a longer note is in the tooltip only."""


class FigureLabel(Label):
    """A figure in large letters, with its unit in small ones: `45.9 ms`."""

    def __init__(self) -> None:
        super().__init__()
        self._is_short = False
        self.setObjectName("figure")
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def set_short(self, short: bool) -> None:
        """Leave out what a rate counts: `samples/s` becomes `/s`."""
        self._is_short = short
        self.updateGeometry()

    def sizeHint(self) -> QSize:
        """The size of figure and unit."""
        return QSize(self._unit_left() + self._unit_width() + 1, super().sizeHint().height())

    def minimumSizeHint(self) -> QSize:
        """The height; a figure that does not fit gets smaller letters."""
        return QSize(0, super().minimumSizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint both on one line."""
        number, unit = self._parts()
        painter = QPainter(self)
        metrics = self.fontMetrics()
        base = (self.height() - metrics.height()) // 2 + metrics.ascent()
        painter.setPen(self.palette().color(self.foregroundRole()))
        painter.drawText(0, base, number)
        if unit and self.sizeHint().width() <= self.width():  # the tooltip has it too
            painter.setFont(self._unit_font())
            painter.setPen(QColor(theme_of(QGuiApplication.palette()).muted))
            painter.drawText(self._unit_left(), base, unit)

    def _parts(self) -> tuple[str, str]:
        """The number, and its unit if the text is a number with one."""
        number, _, unit = self.text().partition(" ")
        if not number[:1].isdigit():
            return self.text(), ""
        return number, unit[unit.find("/") :] if self._is_short and "/" in unit else unit

    def _unit_left(self) -> int:
        number, unit = self._parts()
        return self.fontMetrics().horizontalAdvance(number) + (_UNIT_GAP if unit else 0)

    def _unit_width(self) -> int:
        return QFontMetrics(self._unit_font()).horizontalAdvance(self._parts()[1])

    def _unit_font(self) -> QFont:
        font = QFont(self.font())
        font.setPixelSize(_UNIT_SIZE)
        font.setWeight(QFont.Weight.Normal)
        return font


class FigureCard(QFrame):
    """A caption, and below it a large value with a note at its right."""

    def __init__(self, caption: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("card")
        self.caption = ElidedLabel(objectName="h")
        self.caption.setText(caption)
        self.value = FigureLabel()
        self.note = ElidedLabel(objectName="note")
        self.note.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignBottom)
        self._notes = [""]
        self._line = line = QHBoxLayout()
        line.setSpacing(6)
        line.addWidget(self.value, 0, Qt.AlignmentFlag.AlignLeft)
        line.addWidget(self.note, 1)
        column_of(self.caption, line, parent=self, margins=(10, 6, 10, 5), spacing=0)
        # All cards have the same width, whatever their texts.
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.show_figure(UNKNOWN)

    def show_figure(self, value: str, note: str = "", tone: Tone = "") -> None:
        """Show `value`, and `note` beside it in the colour of `tone`.

        The lines of `note` say the same, each in fewer words: the first one that fits is shown.
        """
        self.value.setText(value)
        self._notes = note.splitlines() or [""]
        _set_property(self.note, "tone", tone)
        self._fit_value()
        self._describe()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep the whole value visible."""
        super().resizeEvent(event)
        self._fit_value()

    def set_caption(self, caption: str) -> None:
        """Set the caption."""
        self.caption.setText(caption)
        self._describe()

    def _fit_value(self) -> None:
        """Use smaller letters or a shorter unit for a value that does not fit; leave out a note
        without room."""
        room = self.contentsRect().width() - 20
        for short, long in product((False, True), (False, True)):
            _set_property(self.value, "long", long)
            self.value.set_short(short)
            if not (short or long):  # a card is as high as the others, whatever it shows
                self.value.setFixedHeight(self.value.sizeHint().height())
            if self.value.sizeHint().width() <= room:
                break
        self._line.activate()
        left = room - self.value.sizeHint().width() - 6
        width = self.note.fontMetrics().horizontalAdvance
        fitting = (note for note in self._notes if width(note) <= left)
        self.note.setText(next(fitting, self._notes[-1]))
        self.note.setVisible(left >= min(_LEAST_NOTE, self.note.sizeHint().width()))

    def _describe(self) -> None:
        texts = [self.caption.text(), self.value.text(), self._notes[0]]
        self.setAccessibleName(", ".join(text for text in texts if text))
        for part in (self, self.caption, self.note):
            part.setToolTip(plain_tip("\n".join(text for text in texts if text)))


class FigureRow(QWidget):
    """The cards `loss`, `metric`, `throughput`, `step_time` and `memory`."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        layout = row_of(parent=self, margins=0, spacing=8)
        captions = {
            "loss": "TRAIN LOSS",
            "metric": "VALIDATION",
            "throughput": "THROUGHPUT",
            "step_time": "STEP TIME",
            "memory": "PEAK MEMORY",
        }
        self._cards = {key: FigureCard(caption) for key, caption in captions.items()}
        for card in self._cards.values():
            layout.addWidget(card, 1)

    def card(self, key: str) -> FigureCard:
        """Return the card `key`."""
        return self._cards[key]

    def set_figure(self, key: str, value: str, note: str = "", tone: Tone = "") -> None:
        """Show a figure in the card `key`."""
        self._cards[key].show_figure(value, note, tone)


def _set_property(label: QLabel, name: str, value: object) -> None:
    """Set a property that the style sheet uses."""
    if value != label.property(name):
        label.setProperty(name, value)
        label.style().unpolish(label)
        label.style().polish(label)
