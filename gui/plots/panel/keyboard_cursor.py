"""Where the keys move the crosshair of a plot: to the next point, to the ends, to the markers."""

from __future__ import annotations

import numpy as np
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent
from PySide6.QtWidgets import QWidget

from gui.plots.plot.crosshair import Reading
from gui.plots.plot.curve_plot import CurvePlot
from gui.plots.plot.markers import NEAR

_STEP = 1.0
"""Minimum movement of the crosshair by one key press, in logical pixels. Closer points are skipped,
so that the keys can cross a curve of a million points."""

_FAR = 0.05
"""A large step is this part of the visible range."""


def next_point(plot: CurvePlot, x: float | None, direction: int, *, far: bool) -> float | None:
    """Return the x position of the next point of any visible curve, right (`direction` 1) or left
    (-1) of `x`. Without an `x`, return the newest visible point. None if there is no such point."""
    if x is None:
        return end(plot, 1)
    (first, last), _ = plot.canvas.area.viewRange()
    min_distance = (last - first) * _FAR if far else plot.canvas.pixels(_STEP)
    return _beyond(plot, x, direction, min_distance)


def end(plot: CurvePlot, direction: int) -> float | None:
    """Return the last point in the visible range (`direction` 1) or the first (-1); if the range
    has no points, the nearest one outside. None if there are no points."""
    ends, _ = plot.canvas.area.viewRange()
    outside = float(np.nextafter(ends[direction > 0], np.inf * direction))
    found = _beyond(plot, outside, -direction, 0.0)
    return _beyond(plot, outside, direction, 0.0) if found is None else found


def next_mark(plot: CurvePlot, x: float | None, direction: int) -> float | None:
    """Return the x position of the next marker, gap or best marker. Without an `x`, return the
    first visible one in this direction. Marks near `x` are skipped: they are announced together
    with `x`. None if there is no such mark."""
    ends, _ = plot.canvas.area.viewRange()
    beyond = ends[direction < 0] if x is None else x + direction * plot.canvas.pixels(NEAR)
    positions = [
        plot.canvas.mark_positions(),
        *(curve.gap_starts() for curve in plot.curves.curves()),
    ]
    marks = np.concatenate(positions)
    marks = marks[(marks - beyond) * direction > 0]
    if not len(marks):
        return None
    return float(marks.min() if direction > 0 else marks.max())


def describe(plot: CurvePlot, x: float) -> str:
    """Describe the position `x` and the values of all curves there, for a screen reader."""
    description, readings = plot.readings(x)
    values = ", ".join(_spoken(each) for each in readings)
    values = values or "no values here"
    return f"{description}: {values}."


def _spoken(reading: Reading) -> str:
    """Say the value of the point, and then the smoothed value as such."""
    value = f"{reading.label} {reading.value}{reading.unit}"
    if reading.at:
        value = f"{value} at {reading.at}"
    if not reading.smoothed:
        return value
    return f"{value} (smoothed {reading.smoothed}{reading.unit})"


def announce(widget: QWidget, text: str) -> None:
    """Let a screen reader say `text` for `widget`; it interrupts what is being said."""
    event = QAccessibleAnnouncementEvent(widget, text)
    event.setPoliteness(QAccessible.AnnouncementPoliteness.Assertive)
    QAccessible.updateAccessibility(event)


def _beyond(plot: CurvePlot, x: float, direction: int, min_distance: float) -> float | None:
    shown = [curve for curve in plot.curves.curves() if curve.visible]
    positions = np.array([curve.next_position(x, direction, min_distance) for curve in shown])
    positions = positions[~np.isnan(positions)]
    if len(positions):
        return float(positions.min() if direction > 0 else positions.max())
    ends = [found[direction > 0] for curve in shown if (found := curve.series.x_range())]
    last = (max if direction > 0 else min)(ends, default=x)
    return last if (last - x) * direction > 0 else None
