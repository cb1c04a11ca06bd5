"""What the tests of plots share: how to see what is on the screen."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from gui.plots.plot_grid import PlotGrid
from gui.theme import DARK

Inked = Callable[[QWidget, str], int]


@pytest.fixture
def grid(qtbot: QtBot) -> PlotGrid:
    """An empty grid on the screen."""
    made = PlotGrid(DARK)
    qtbot.addWidget(made)
    made.resize(1000, 700)
    made.show()
    QApplication.processEvents()
    return made


@pytest.fixture
def inked(qapp: QApplication) -> Inked:
    """Counts the pixels of a widget that have (nearly) one colour."""

    def count(widget: QWidget, colour: str) -> int:
        qapp.processEvents()
        image, wanted = widget.grab().toImage(), QColor(colour)
        return sum(
            abs(pixel.red() - wanted.red())
            + abs(pixel.green() - wanted.green())
            + abs(pixel.blue() - wanted.blue())
            < 24
            for x in range(image.width())
            for y in range(image.height())
            for pixel in (image.pixelColor(x, y),)
        )

    return count
