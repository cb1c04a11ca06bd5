"""A plot as a picture: SVG, and PNG drawn from it with twice the resolution of the screen."""

from __future__ import annotations

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QMimeData
from PySide6.QtGui import QImage, QImageWriter, QPainter
from PySide6.QtSvg import QSvgRenderer

from engine.drawing.svg import svg as written
from gui.plots.export.figure_of import figure_of
from gui.plots.plot.curve_plot import CurvePlot

_PNG_SCALE = 2.0
"""Pixels of a PNG per logical pixel."""


def image(plot: CurvePlot, source: str) -> QImage:
    """Return the picture of `plot`; `source` names its run or runs."""
    renderer = QSvgRenderer(QByteArray(svg(plot, source)))
    size = renderer.defaultSize() * _PNG_SCALE
    made = QImage(size, QImage.Format.Format_ARGB32_Premultiplied)
    made.fill(0)
    painter = QPainter(made)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    renderer.render(painter)
    painter.end()
    return made


def png(plot: CurvePlot, source: str) -> bytes:
    """The picture as a PNG document."""
    data = QByteArray()
    buffer = QBuffer(data)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    QImageWriter(buffer, b"png").write(image(plot, source))
    return bytes(data.data())


def svg(plot: CurvePlot, source: str) -> bytes:
    """Return the picture as an SVG document."""
    return written(figure_of(plot, source)).encode()


def for_clipboard(plot: CurvePlot, source: str) -> QMimeData:
    """Return both formats: the application that pastes takes the one that it knows."""
    data = QMimeData()
    data.setImageData(image(plot, source))
    data.setData("image/svg+xml", svg(plot, source))
    return data
