"""A plot as a picture: PNG in twice the size of the screen, or SVG that scales."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QMimeData, QPoint, QRect
from PySide6.QtGui import QImage, QPainter
from PySide6.QtSvg import QSvgGenerator

from gui.plots.data.series_style import display_name
from gui.plots.plot.curve_plot import CurvePlot
from gui.style.translation import translate

_SHARP = 2.0
"""Pixels of a PNG per logical pixel."""


def image(plot: CurvePlot) -> QImage:
    """The card of `plot` without its menu button."""
    size = plot.size() * _SHARP
    made = QImage(size, QImage.Format.Format_ARGB32_Premultiplied)
    made.setDevicePixelRatio(_SHARP)
    made.fill(0)
    with _ready(plot):
        plot.render(made, QPoint())
    return made


def save_png(plot: CurvePlot, file: Path) -> None:
    """Write the picture to `file`, which ends in .png. Raises OSError."""
    if not image(plot).save(str(file)):
        text = translate("Picture", "The picture {file} could not be written.")
        raise OSError(text.format(file=file))


def svg(plot: CurvePlot) -> bytes:
    """The same as an SVG document."""
    data = QByteArray()
    buffer = QBuffer(data)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    generator = QSvgGenerator()
    generator.setOutputDevice(buffer)
    generator.setSize(plot.size())
    generator.setViewBox(QRect(QPoint(), plot.size()))
    generator.setTitle(display_name(plot.title))
    with _ready(plot):
        painter = QPainter(generator)
        plot.render(painter, QPoint())
        painter.end()
    return bytes(data.data())


def for_clipboard(plot: CurvePlot) -> QMimeData:
    """Both kinds: the reader takes what it understands."""
    data = QMimeData()
    data.setImageData(image(plot))
    data.setData("image/svg+xml", svg(plot))
    return data


@contextmanager
def _ready(plot: CurvePlot) -> Iterator[None]:
    plot.refresh()
    plot.set_crosshair(None)
    plot.header.more.hide()
    try:
        yield
    finally:
        plot.header.more.show()
