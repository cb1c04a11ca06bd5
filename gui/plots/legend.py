"""The chips above a plot, one per curve: its colour, its name, and a click that hides it."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QToolButton, QWidget

from gui.state_look import dot_icon

MOST_NAMED = 4
"""More chips than these show their dots only; the names are in the tooltips."""

MOST_NAMED_ALONE = 6
"""The same, where the legend has a line of its own."""


class Legend(QWidget):
    """A row of chips; checked is visible."""

    toggled = Signal(str, bool)
    """Name of a curve, and whether it is to be seen."""

    def __init__(self, most_named: int = MOST_NAMED, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._most_named = most_named
        # Many chips must not make a narrow card wide: those at the end are cut off.
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self._chips: dict[str, QToolButton] = {}
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(0, 0, 0, 0)
        self._row.setSpacing(0)
        self._row.addStretch(1)

    def chip(self, name: str) -> QToolButton:
        """The chip of the curve `name`."""
        return self._chips[name]

    def set_curve(self, name: str, label: str, colour: str) -> None:
        """Show the curve `name` as `label`, with a new chip if needed."""
        if name not in self._chips:
            self._add(name)
        chip = self._chips[name]
        chip.setText(label)
        chip.setToolTip(f"{label}: click to hide or show")
        chip.setAccessibleName(label)
        chip.setIcon(dot_icon(colour))

    def clear(self) -> None:
        """Drop every chip."""
        for chip in self._chips.values():
            self._row.removeWidget(chip)
            chip.deleteLater()
        self._chips.clear()

    def _add(self, name: str) -> None:
        chip = QToolButton()
        chip.setObjectName("chip")
        chip.setCheckable(True)
        chip.setChecked(True)
        chip.setIconSize(QSize(8, 8))
        chip.toggled.connect(lambda visible: self.toggled.emit(name, visible))
        self._row.insertWidget(len(self._chips), chip)
        self._chips[name] = chip
        named = len(self._chips) <= self._most_named
        style = Qt.ToolButtonStyle
        for each in self._chips.values():
            each.setToolButtonStyle(
                style.ToolButtonTextBesideIcon if named else style.ToolButtonIconOnly
            )
