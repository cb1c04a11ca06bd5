"""The row of compared runs: colour, pin and close button of each, and the button that closes the
comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QFrame, QPushButton, QToolButton, QWidget

from engine.runs.run_info import RunInfo
from gui.style.state_style import dot_icon
from gui.style.theme import Theme, icon
from gui.widgets.boxes import row_of
from gui.widgets.layouts.fitting_scroll import FittingScroll
from gui.widgets.layouts.flow_layout import FlowLayout
from gui.widgets.plain_text import Label, plain_tip

_CHIP_HEIGHT = 28
_CROSS_WIDTH = 20
_MAX_NAME_LENGTH = 24
_MOST_CHIPS = 40
"""The table has the others."""

_GAP = 4
_MOST_HEIGHT = 2 * _CHIP_HEIGHT + _GAP
"""Two lines of chips; one scrolls to the others, so that many runs leave room for their curves."""


class RunChips(QWidget):
    """A click on a run pins it as the baseline; the cross beside it removes it."""

    pin_clicked = Signal(str)
    remove_clicked = Signal(str)
    close_clicked = Signal()
    part_clicked = Signal()
    """The user asks where the two runs part."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._shown: object = None
        self._pins: dict[str, QToolButton] = {}
        self._crosses: dict[str, QToolButton] = {}
        chips = QWidget()
        self._row = FlowLayout(chips, _GAP)
        self.close_button = QPushButton("Close")
        self.close_button.setToolTip("Back to the single run")
        self.close_button.clicked.connect(self.close_clicked)
        self.part_button = QPushButton("Where do they part?")
        self.part_button.clicked.connect(self.part_clicked)
        area = FittingScroll(chips, _MOST_HEIGHT)
        area.setMaximumHeight(_MOST_HEIGHT)
        area.setAccessibleName("Compared runs")
        top = Qt.AlignmentFlag.AlignTop
        buttons = ((button, 0, top) for button in (self.part_button, self.close_button))
        row_of((area, 1, top), *buttons, parent=self, margins=0)

    def pin(self, run_id: str) -> QToolButton:
        """Return the button that makes a run the baseline."""
        return self._pins[run_id]

    def cross(self, run_id: str) -> QToolButton:
        """Return the button that removes a run."""
        return self._crosses[run_id]

    def show_runs(
        self, infos: Sequence[RunInfo], colours: Mapping[str, int], baseline: str | None
    ) -> None:
        """Show a chip for each run; of many, for the first ones."""
        shown = [(info.id, info.name, colours[info.id]) for info in infos], baseline, self._theme
        if shown == self._shown:
            return
        self._shown = shown
        self.part_button.setEnabled(len(infos) == 2)
        tip = "Finds the first step at which two runs differ, and what differs first in it"
        self.part_button.setToolTip(
            plain_tip(tip if len(infos) == 2 else f"{tip}: choose two runs")
        )
        focused = [run_id for run_id, pin in self._pins.items() if pin.hasFocus()]
        while item := self._row.takeAt(0):
            if widget := item.widget():
                widget.hide()
                widget.deleteLater()
        self._pins, self._crosses = {}, {}
        for info in infos[:_MOST_CHIPS]:
            self._add(info, self._theme.curve(colours[info.id]), pinned=info.id == baseline)
        for run_id in focused:
            if run_id in self._pins:
                self._pins[run_id].setFocus()
        if len(infos) > _MOST_CHIPS:
            self._add_note(f"and {len(infos) - _MOST_CHIPS:,} more")
        if baseline is None:
            self._add_note("Click a run to pin it as the dashed baseline")

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of `theme` at the next `show_runs`."""
        self._theme = theme

    def _add_note(self, text: str) -> None:
        note = Label(text, objectName="note")
        note.setFixedHeight(_CHIP_HEIGHT)
        self._row.addWidget(note)

    def _add(self, info: RunInfo, colour: str, *, pinned: bool) -> None:
        pin = QToolButton()
        pin.setCheckable(True)
        pin.setChecked(pinned)
        pin.setText(f"#{info.id} {_short(info.name)}")
        pin.setIcon(icon("push-pin", colour) if pinned else dot_icon(colour))
        pin.setIconSize(QSize(12, 12))
        pin.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        tip = (
            f"{info.title}: the baseline"
            if pinned
            else f"{info.title}: click to make it the baseline"
        )
        pin.setToolTip(plain_tip(tip))
        pin.setAccessibleName(f"Baseline: {info.title}")
        pin.clicked.connect(lambda: self.pin_clicked.emit(info.id))
        cross = QToolButton()
        cross.setText("×")
        cross.setFixedWidth(_CROSS_WIDTH)
        out = f"Remove run {info.id} from the comparison"
        cross.setToolTip(plain_tip(out))
        cross.setAccessibleName(out)
        cross.clicked.connect(lambda: self.remove_clicked.emit(info.id))
        self._pins[info.id], self._crosses[info.id] = pin, cross
        chip = QFrame()
        chip.setObjectName("card")
        chip.setFixedHeight(_CHIP_HEIGHT)
        row_of(pin, cross, parent=chip, margins=1, spacing=0)
        self._row.addWidget(chip)


def _short(name: str) -> str:
    """Return a name, with an ellipsis in its middle if it is long: the ends mostly differ."""
    half = _MAX_NAME_LENGTH // 2
    is_long = len(name) > _MAX_NAME_LENGTH
    return f"{name[: half - 1].rstrip()}…{name[-half:].lstrip()}" if is_long else name
