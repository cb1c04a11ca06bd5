"""The row of compared runs: the colour of each, its pin, and the way out of the comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QScrollArea,
    QToolButton,
    QWidget,
)

from engine.client import RunInfo
from gui.state_look import dot_icon
from gui.theme import Theme, icon

_HEIGHT = 34
_CROSS_WIDTH = 20
_LONGEST_NAME = 24


class RunChips(QWidget):
    """A click on a run pins it as the baseline; the cross beside it takes it out."""

    pin_clicked = Signal(str)
    remove_clicked = Signal(str)
    close_clicked = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._shown: object = None
        self._pins: dict[str, QToolButton] = {}
        self._crosses: dict[str, QToolButton] = {}
        self._row = QHBoxLayout()
        self._row.setContentsMargins(0, 0, 0, 0)
        self._row.setSpacing(4)
        content = QWidget()
        content.setObjectName("content")
        content.setLayout(self._row)
        scroll = QScrollArea()
        scroll.setWidget(content)
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setFixedHeight(_HEIGHT)
        scroll.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.close_button = QPushButton("Close")
        self.close_button.setToolTip("Back to the single run")
        self.close_button.clicked.connect(self.close_clicked)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(scroll, 1)
        layout.addWidget(self.close_button)

    def pin(self, run_id: str) -> QToolButton:
        """The button that makes a run the baseline."""
        return self._pins[run_id]

    def cross(self, run_id: str) -> QToolButton:
        """The button that takes a run out."""
        return self._crosses[run_id]

    def show_runs(
        self, infos: Sequence[RunInfo], colours: Mapping[str, int], baseline: str | None
    ) -> None:
        """Show a chip for each run."""
        shown = [(info.id, info.name, colours[info.id]) for info in infos], baseline, self._theme
        if shown == self._shown:
            return
        self._shown = shown
        while item := self._row.takeAt(0):
            if widget := item.widget():
                widget.hide()
                widget.deleteLater()
        self._pins, self._crosses = {}, {}
        for info in infos:
            self._add(info, self._theme.curve(colours[info.id]), pinned=info.id == baseline)
        hint = QLabel("" if baseline else "Click a run to pin it as the dashed baseline")
        hint.setObjectName("note")
        self._row.addWidget(hint)
        self._row.addStretch(1)

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of `theme` at the next `show_runs`."""
        self._theme = theme

    def _add(self, info: RunInfo, colour: str, *, pinned: bool) -> None:
        pin = QToolButton()
        pin.setCheckable(True)
        pin.setChecked(pinned)
        pin.setText(f"#{info.id} {_short(info.name)}")
        pin.setIcon(icon("push-pin", colour) if pinned else dot_icon(colour))
        pin.setIconSize(QSize(12, 12))
        pin.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        pin.setToolTip(
            f"{info.title}: " + ("the baseline" if pinned else "click: make it the baseline")
        )
        pin.setAccessibleName(f"Baseline: {info.title}")
        pin.clicked.connect(lambda: self.pin_clicked.emit(info.id))
        cross = QToolButton()
        cross.setText("×")
        cross.setFixedWidth(_CROSS_WIDTH)
        cross.setToolTip(f"Take run {info.id} out of the comparison")
        cross.setAccessibleName(f"Take run {info.id} out of the comparison")
        cross.clicked.connect(lambda: self.remove_clicked.emit(info.id))
        self._pins[info.id], self._crosses[info.id] = pin, cross
        chip = QFrame()
        chip.setObjectName("card")
        inside = QHBoxLayout(chip)
        inside.setContentsMargins(1, 1, 1, 1)
        inside.setSpacing(0)
        for button in (pin, cross):
            inside.addWidget(button)
        self._row.addWidget(chip)


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1].rstrip()}…"
