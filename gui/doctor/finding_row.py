"""One finding of the doctor or of a preflight: a mark, the sentence, and what to do."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import QEvent, QPointF, Qt
from PySide6.QtGui import QColor, QFont, QGuiApplication, QPainter, QPen, QPixmap
from PySide6.QtWidgets import QWidget

from engine.doctor.finding import Finding, Level
from engine.runs.run_state import RunState
from gui.style.state_marks import SIZE, state_pixmap
from gui.style.state_style import PIXEL_RATIO
from gui.style.theme import Theme, theme_of
from gui.widgets.boxes import column_of, row_of
from gui.widgets.plain_text import Label, plain_tip

_LEVELS: Mapping[Level, str] = {
    "error": "Error",
    "warning": "Warning",
    "hint": "Hint",
    "unknown": "Not checked",
    "ok": "In order",
}
_SHAPES = {
    "error": RunState.FAILED,
    "warning": RunState.INTERRUPTED,
    "ok": RunState.FINISHED,
}


class FindingRow(QWidget):
    """The level as a shape, perhaps the name, and texts that can be selected and copied."""

    def __init__(self, finding: Finding, *, is_named: bool = False) -> None:
        super().__init__()
        self.finding = finding
        self.mark = Label()
        self.mark.setFixedWidth(SIZE + 2)
        name = Label(finding.name[:1].upper() + finding.name[1:])
        font = name.font()
        font.setWeight(QFont.Weight.DemiBold)
        name.setFont(font)
        name.setVisible(is_named)
        self.text = Label(finding.text)
        self.advice = Label(finding.advice, objectName="note")
        self.advice.setVisible(bool(finding.advice))
        for label in (name, self.text, self.advice):
            label.setWordWrap(True)
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.row = row_of(
            (self.mark, 0, Qt.AlignmentFlag.AlignTop),
            (column_of(name, self.text, self.advice, spacing=1), 1),
            parent=self,
            margins=0 if is_named else (0, 6, 0, 6),
            spacing=10,
        )
        level = _LEVELS[finding.level]
        self.setAccessibleName(f"{finding.name}: {level}. {finding.text} {finding.advice}".strip())
        self.mark.setAccessibleName(level)
        self.mark.setToolTip(plain_tip(level))
        self._draw_mark()

    def changeEvent(self, event: QEvent) -> None:
        """Follow the theme."""
        super().changeEvent(event)
        if event.type() is QEvent.Type.PaletteChange:
            self._draw_mark()

    def _draw_mark(self) -> None:
        theme = theme_of(QGuiApplication.palette())
        self.mark.setPixmap(_level_pixmap(self.finding.level, theme))


def _level_pixmap(level: Level, theme: Theme) -> QPixmap:
    """Return the mark of a level: each has a shape of its own."""
    colour = {"error": theme.bad, "warning": theme.warn, "hint": theme.accent, "ok": theme.ok}.get(
        level, theme.muted
    )
    if (shape := _SHAPES.get(level)) is not None:
        return state_pixmap(shape, colour)
    pixmap = QPixmap(SIZE * PIXEL_RATIO, SIZE * PIXEL_RATIO)
    pixmap.setDevicePixelRatio(PIXEL_RATIO)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(QPen(QColor(colour), 2.0, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap))
    if level == "unknown":
        painter.drawLine(QPointF(3.5, 7), QPointF(10.5, 7))
    else:
        painter.drawPoint(QPointF(7, 3.2))
        painter.drawLine(QPointF(7, 6.4), QPointF(7, 11))
    painter.end()
    return pixmap
