"""A plot as a picture: PNG with twice the resolution of the screen, or SVG."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QMimeData, QPoint, QRect
from PySide6.QtGui import QImage, QImageWriter, QPainter
from PySide6.QtSvg import QSvgGenerator

from gui.plots.data.series_style import display_name
from gui.plots.plot.curve_plot import CurvePlot

_PNG_SCALE = 2.0
"""Pixels of a PNG per logical pixel."""


def image(plot: CurvePlot) -> QImage:
    """Return the card of `plot` without its menu button."""
    size = plot.size() * _PNG_SCALE
    made = QImage(size, QImage.Format.Format_ARGB32_Premultiplied)
    made.setDevicePixelRatio(_PNG_SCALE)
    made.fill(0)
    with _prepared(plot):
        plot.render(made, QPoint())
    return made


def png(plot: CurvePlot) -> bytes:
    """The picture as a PNG document."""
    data = QByteArray()
    buffer = QBuffer(data)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    QImageWriter(buffer, b"png").write(image(plot))
    return bytes(data.data())


def svg(plot: CurvePlot) -> bytes:
    """Return the picture as an SVG document."""
    data = QByteArray()
    buffer = QBuffer(data)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    generator = QSvgGenerator()
    generator.setOutputDevice(buffer)
    generator.setSize(plot.size())
    generator.setViewBox(QRect(QPoint(), plot.size()))
    generator.setTitle(display_name(plot.title))
    with _prepared(plot):
        painter = QPainter(generator)
        plot.render(painter, QPoint())
        painter.end()
    return bytes(data.data())


def for_clipboard(plot: CurvePlot) -> QMimeData:
    """Return both formats: the application that pastes takes the one that it knows."""
    data = QMimeData()
    data.setImageData(image(plot))
    data.setData("image/svg+xml", svg(plot))
    return data


@contextmanager
def _prepared(plot: CurvePlot) -> Iterator[None]:
    plot.refresh()
    plot.set_crosshair(None)
    plot.header.more.hide()
    try:
        yield
    finally:
        plot.header.more.show()
