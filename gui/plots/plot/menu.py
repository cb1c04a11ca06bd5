"""The menu of a plot, behind its three dots."""

from __future__ import annotations

from enum import Enum
from functools import partial

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QMenu, QWidget


class PlotAction(Enum):
    """An entry of the menu; the value is its text."""

    ENLARGE = "Enlarge"
    EARLIER = "Move to the left"
    LATER = "Move to the right"
    HIDE = "Hide"
    COPY_PICTURE = "Copy as picture"
    COPY_CSV = "Copy data as CSV"
    SAVE_PNG = "Save as PNG…"
    SAVE_SVG = "Save as SVG…"
    SAVE_CSV = "Save data as CSV…"

    @property
    def is_export(self) -> bool:
        """Whether the entry copies or saves the plot; otherwise it moves, hides or enlarges it."""
        return self in _EXPORTS


_EXPORTS = (
    PlotAction.COPY_PICTURE,
    PlotAction.COPY_CSV,
    PlotAction.SAVE_PNG,
    PlotAction.SAVE_SVG,
    PlotAction.SAVE_CSV,
)
_SEPARATOR_AFTER = (PlotAction.HIDE, PlotAction.COPY_CSV)


class PlotMenu(QMenu):
    """Emits the chosen entry."""

    chosen = Signal(object)
    """PlotAction."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.entries = {}
        for action in PlotAction:
            entry = self.addAction(action.value)
            entry.triggered.connect(partial(self.chosen.emit, action))
            self.entries[action] = entry
            if action in _SEPARATOR_AFTER:
                self.addSeparator()

    def set_enlarged(self, enlarged: bool) -> None:
        """While the plot is enlarged, offer to go back, and disable the entries that need other
        plots."""
        self.entries[PlotAction.ENLARGE].setText(
            "Restore\tEsc" if enlarged else PlotAction.ENLARGE.value
        )
        for action in (PlotAction.EARLIER, PlotAction.LATER, PlotAction.HIDE):
            self.entries[action].setEnabled(not enlarged)
