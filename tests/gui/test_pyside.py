"""The Qt binding itself."""

from __future__ import annotations

import sys

from PySide6.QtCore import Qt
from PySide6.QtGui import QPainter, QPixmap
from pytestqt.qtbot import QtBot

CALLS = 2000


def test_calls_into_qt_lose_no_reference_to_none(qtbot: QtBot) -> None:
    """PySide6 6.12.0 loses one a call on Python 3.11: a window aborts after seconds of painting."""
    pixmap = QPixmap(4, 4)
    painter = QPainter(pixmap)
    before = sys.getrefcount(None)
    for _ in range(CALLS):
        painter.setPen(Qt.GlobalColor.red)
    after = sys.getrefcount(None)
    painter.end()
    assert after > before - CALLS // 10
