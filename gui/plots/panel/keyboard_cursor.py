"""Where the keys take the crosshair of a plot: from point to point, to the ends, to the marks."""

from __future__ import annotations

import numpy as np
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent
from PySide6.QtWidgets import QWidget

from gui.plots.plot.curve_plot import CurvePlot
from gui.plots.plot.markers import NEAR
from gui.style.translation import translate

_STEP = 1.0
"""Logical pixels from one point to the next at least: of points that lie closer, some are passed
over, so that the way through a million points has an end."""

_FAR = 0.05
"""Part of what is in sight by which a large step goes."""


def next_point(plot: CurvePlot, x: float | None, way: int, *, far: bool) -> float | None:
    """The place of the next point of any curve that is seen, to the right (`way` 1) or to the left
    (-1) of `x`; from nowhere (None) to the newest point in sight. None where there is none."""
    if x is None:
        return end(plot, 1)
    (first, last), _ = plot.canvas.area.viewRange()
    least = (last - first) * _FAR if far else plot.canvas.pixels(_STEP)
    return _beyond(plot, x, way, least)


def end(plot: CurvePlot, way: int) -> float | None:
    """The last point in sight (`way` 1), or the first (-1); the nearest one where none is."""
    ends, _ = plot.canvas.area.viewRange()
    outside = float(np.nextafter(ends[way > 0], np.inf * way))
    found = _beyond(plot, outside, -way, 0.0)
    return _beyond(plot, outside, way, 0.0) if found is None else found


def next_mark(plot: CurvePlot, x: float | None, way: int) -> float | None:
    """The place of the next marker, gap or star; from nowhere (None) to the first that is in sight,
    seen from the end where `way` comes from. Those near `x` are told with it. None where there is
    none."""
    ends, _ = plot.canvas.area.viewRange()
    beyond = ends[way < 0] if x is None else x + way * plot.canvas.pixels(NEAR)
    places = [plot.canvas.marks(), *(curve.gap_starts() for curve in plot.curves.curves())]
    marks = np.concatenate(places)
    marks = marks[(marks - beyond) * way > 0]
    if not len(marks):
        return None
    return float(marks.min() if way > 0 else marks.max())


def words(plot: CurvePlot, x: float) -> str:
    """The place `x` and the values of all curves there, to be heard."""
    place, readings = plot.readings(x)
    values = ", ".join(f"{each.label} {each.value}" for each in readings)
    values = values or translate("KeyboardCursor", "no values here")
    return f"{place}: {values}."


def announce(widget: QWidget, text: str) -> None:
    """Let a screen reader say `text` of `widget`, instead of what it is still saying."""
    event = QAccessibleAnnouncementEvent(widget, text)
    event.setPoliteness(QAccessible.AnnouncementPoliteness.Assertive)
    QAccessible.updateAccessibility(event)


def _beyond(plot: CurvePlot, x: float, way: int, least: float) -> float | None:
    shown = [curve for curve in plot.curves.curves() if curve.visible]
    places = np.array([curve.place_beyond(x, way, least) for curve in shown])
    places = places[~np.isnan(places)]
    if len(places):
        return float(places.min() if way > 0 else places.max())
    ends = [found[way > 0] for curve in shown if (found := curve.series.x_range())]
    last = (max if way > 0 else min)(ends, default=x)
    return last if (last - x) * way > 0 else None
