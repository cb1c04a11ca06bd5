"""The row of five cards above the plots, with the key figures of a run."""

from __future__ import annotations

from typing import Literal

from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from gui.widgets.plain_text import Label, plain_tip

Tone = Literal["", "good", "best", "warning", "bad"]
"""The meaning of a note; the style sheet defines its colour."""

UNKNOWN = "–"


class FigureCard(QFrame):
    """A caption, a large value and a note below it."""

    def __init__(self, caption: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("card")
        self.caption = Label(caption)
        self.caption.setObjectName("h")
        self.value = Label()
        self.value.setObjectName("figure")
        self.note = Label()
        self.note.setObjectName("note")
        layout = QVBoxLayout(self)
        layout.setContentsMargins(10, 8, 10, 8)
        layout.setSpacing(1)
        for label in (self.caption, self.value, self.note):
            # All cards have the same width, whatever their texts.
            label.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
            layout.addWidget(label)
        self.show_figure(UNKNOWN)

    def show_figure(self, value: str, note: str = "", tone: Tone = "") -> None:
        """Show `value`, and `note` below it in the colour of `tone`."""
        self.value.setText(value)
        self.note.setText(note)
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
        """Use a smaller font for a value that does not fit."""
        _set_property(self.value, "long", False)
        wide = self.value.sizeHint().width() > self.value.width()
        _set_property(self.value, "long", wide)

    def _describe(self) -> None:
        texts = [self.caption.text(), self.value.text(), self.note.text()]
        self.setAccessibleName(", ".join(text for text in texts if text))
        self.setToolTip(plain_tip("\n".join(text for text in texts if text)))


class FigureRow(QWidget):
    """The cards `loss`, `metric`, `throughput`, `step_time` and `memory`."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(8)
        captions = {
            "loss": self.tr("TRAIN LOSS"),
            "metric": self.tr("VALIDATION"),
            "throughput": self.tr("THROUGHPUT"),
            "step_time": self.tr("STEP TIME"),
            "memory": self.tr("PEAK MEMORY"),
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
