"""The bar above log and events."""

from __future__ import annotations

from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from gui.log.log_bar import LogBar
from gui.style.theme import ThemeController


def inked(bar: LogBar) -> set[int]:
    """The lightness of the opaque pixels of the icon."""
    image = bar.first_error.icon().pixmap(16, 16).toImage()
    image.convertTo(QImage.Format.Format_ARGB32)
    colours = (image.pixelColor(x, y) for x in range(16) for y in range(16))
    return {colour.lightness() for colour in colours if colour.alpha() > 250}


def test_the_icon_of_a_narrow_bar_is_seen_in_every_theme(qtbot: QtBot, qapp: QApplication) -> None:
    theme = ThemeController(qapp)
    theme.set_choice("light")
    bar = LogBar()
    qtbot.addWidget(bar)
    bar.resize(500, 30)
    bar.show()
    assert max(inked(bar)) < 100
    theme.set_choice("dark")
    QApplication.processEvents()
    assert min(inked(bar)) > 150
