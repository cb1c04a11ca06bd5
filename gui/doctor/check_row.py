"""One check in the dialog Doctor."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont
from PySide6.QtWidgets import QGridLayout, QWidget

from engine.doctor.check import Check
from gui.widgets.plain_text import Label, plain_tip

_MARKS = {True: "✓", False: "✕", None: "–"}
_MARK_WIDTH = 14
"""Logical pixels: the names begin at one place."""

_TONES = {True: "good", False: "bad", None: ""}


class CheckRow(QWidget):
    """A mark, the name, the sentence, and the remedy, which can be selected and copied."""

    def __init__(self, check: Check, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.check = check
        states = {True: "in order", False: "a problem", None: "not checked"}
        self.mark = Label(_MARKS[check.ok], objectName="note")
        self.mark.setProperty("tone", _TONES[check.ok])
        self.mark.setAccessibleName(states[check.ok])
        self.mark.setToolTip(plain_tip(states[check.ok]))
        name = Label(check.check[:1].upper() + check.check[1:])
        font = name.font()
        font.setWeight(QFont.Weight.DemiBold)
        name.setFont(font)
        self.sentence = Label(check.sentence)
        self.remedy = Label(f"→ {check.remedy}" if check.remedy else "", objectName="note")
        self.remedy.setVisible(bool(check.remedy))
        grid = QGridLayout(self)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setHorizontalSpacing(8)
        grid.setVerticalSpacing(1)
        grid.setColumnMinimumWidth(0, _MARK_WIDTH)
        grid.setColumnStretch(1, 1)
        grid.addWidget(self.mark, 0, 0, Qt.AlignmentFlag.AlignTop)
        for place, label in enumerate((name, self.sentence, self.remedy)):
            label.setWordWrap(True)
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            grid.addWidget(label, place, 1)
        text = f"{check.check}: {states[check.ok]}. {check.sentence} {check.remedy}"
        self.setAccessibleName(text.strip())
