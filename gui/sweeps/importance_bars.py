"""How much of the differences between good and other trials each setting explains, as bars."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QGuiApplication, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from engine.sweeps.study import LEAST_TRIALS
from gui.style.theme import theme_of
from gui.widgets.cell_painting import draw_bar

_ROW, _BAR, _NUMBER = 24, 8, 44
_NAME_SHARE = 0.4


class ImportanceBars(QWidget):
    """One row for each setting, the most important first."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._shares: dict[str, float] = {}
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)
        self.show_shares({})

    @property
    def shares(self) -> Mapping[str, float]:
        """What is shown, by the title of the setting."""
        return self._shares

    def show_shares(self, shares: Mapping[str, float]) -> None:
        """Show these parts of 1 by title; none: there are too few trials to tell."""
        order = sorted(shares.items(), key=lambda each: -each[1])
        self._shares = dict(order)
        texts = ", ".join(f"{name} {_percent(share)}" for name, share in order)
        known = texts or "not known yet"
        self.setAccessibleName(f"What mattered: {known}")
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        """As high as its rows."""
        return QSize(240, max(1, len(self._shares)) * _ROW)

    def minimumSizeHint(self) -> QSize:
        """As high as its rows."""
        return QSize(160, self.sizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw name, bar and number of each setting."""
        theme = theme_of(QGuiApplication.palette())
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        middle = Qt.AlignmentFlag.AlignVCenter
        if not self._shares:
            painter.setPen(QColor(theme.muted))
            text = f"Known after {LEAST_TRIALS} finished trials."
            painter.drawText(QRectF(0, 0, self.width(), _ROW), middle, text)
        name_width = self.width() * _NAME_SHARE
        room = self.width() - name_width - _NUMBER - 8
        for row, (name, share) in enumerate(self._shares.items()):
            top = row * _ROW
            painter.setPen(QColor(theme.text))
            elided = painter.fontMetrics().elidedText(
                name, Qt.TextElideMode.ElideMiddle, int(name_width) - 8
            )
            painter.drawText(QRectF(0, top, name_width - 8, _ROW), middle, elided)
            bar = QRectF(name_width, top + (_ROW - _BAR) / 2, room, _BAR)
            colour = theme.warn if row == 0 else theme.accent
            parts = [(share, colour)] if share > 0 else []
            draw_bar(painter, bar, QColor(theme.line), parts, least=2.0)
            painter.setPen(QColor(theme.text if row == 0 else theme.muted))
            number = QRectF(self.width() - _NUMBER, top, _NUMBER, _ROW)
            painter.drawText(number, middle | Qt.AlignmentFlag.AlignRight, _percent(share))
        painter.end()


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
