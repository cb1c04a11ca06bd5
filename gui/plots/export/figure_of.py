"""A plot of the window as a figure, with the names and units that a picture needs by itself."""

from __future__ import annotations

import time

import numpy as np
from PySide6.QtGui import QColor, QPen

from engine.drawing.figure import (
    Figure,
    FigureAxis,
    FigureColours,
    FigureLegend,
    FigureLine,
    FigureMark,
)
from engine.system.units import date_and_time
from gui.plots.data.x_axis import axis_title
from gui.plots.plot.band_curve import OPACITY, BandCurve
from gui.plots.plot.curve import Curve
from gui.plots.plot.curve_plot import CurvePlot
from gui.style.theme import Theme

LEAST_SIZE = (640, 400)
"""In logical pixels: a small card has no room for the names."""

_BESIDE = (90, 130)
"""About the width and height of what stands beside the curves."""


def figure_of(plot: CurvePlot, source: str) -> Figure:
    """Return what `plot` shows now; `source` names its run or runs."""
    plot.refresh()
    canvas, theme = plot.canvas, plot.theme
    size = plot.size()
    width, height = max(size.width(), LEAST_SIZE[0]), max(size.height(), LEAST_SIZE[1])
    (first, last), (low, high) = canvas.area.viewRange()
    x_axis, y_axis = canvas.getAxis("bottom"), canvas.getAxis("left")
    x_ticks, _ = x_axis.labelled(first, last, width - _BESIDE[0])
    y_ticks, offset = y_axis.labelled(low, high, height - _BESIDE[1])
    name = plot.title
    unit = f" ({plot.unit})" if plot.unit else ""
    curves = [curve for curve in plot.curves.curves() if curve.visible]
    painted = sorted(curves, key=lambda curve: curve.items[0].zValue())
    ratio = plot.devicePixelRatioF()
    smoothing = max((curve.series.smoothing for curve in curves), default=0.0)
    if smoothing:
        source = f"{source} · lines smoothed by {smoothing:.2f}"
    if plot.left_out:
        source = f"{source} · {plot.left_out}"
    title = name + unit
    return Figure(
        width=width,
        height=height,
        title=title,
        source=source,
        date=date_and_time(time.time()),
        x=FigureAxis(title=axis_title(x_axis.kind, full=True), low=first, high=last, ticks=x_ticks),
        y=FigureAxis(
            title=f"{title} − {offset}" if offset else title,
            low=low,
            high=high,
            ticks=y_ticks,
        ),
        lines=[
            *(_area(curve, theme) for curve in curves if isinstance(curve, BandCurve)),
            *(line for curve in painted for line in _lines(curve, ratio)),
        ],
        legend=[
            FigureLegend(
                label=curve.label,
                colour=theme.curve(curve.colour_index),
                dashes=_dashes(curve, 2.0),
            )
            for curve in curves
        ],
        marks=_marks(plot),
        colours=FigureColours(
            background=theme.card, text=theme.text, muted=theme.muted, grid=theme.line
        ),
    )


def _area(curve: BandCurve, theme: Theme) -> FigureLine:
    xs, low, high = curve.drawn_area
    colour = theme.curve(curve.colour_index)
    return FigureLine(
        xs=xs.tolist(),
        ys=high.tolist(),
        lower=low.tolist(),
        colour=colour,
        base=colour,
        opacity=OPACITY,
        width=0.0,
    )


def _lines(curve: Curve, ratio: float) -> list[FigureLine]:
    """Return the drawn lines of a curve: its pale values, and the line with its dots and, in a
    stack, with the area below it."""
    lines = []
    for item in curve.lines:
        xs, ys = item.getData()
        if xs is None or not len(xs):
            continue
        pen = QPen(item.opts["pen"])
        # The pens are in device pixels; the thin ones are as thin as possible.
        width = max(1.0, pen.widthF() / ratio)
        is_filled = item.opts["fillLevel"] is not None
        fill = item.opts["brush"].color().name(QColor.NameFormat.HexRgb) if is_filled else ""
        lines.append(
            FigureLine(
                xs=(np.asarray(xs) + item.pos().x()).tolist(),
                ys=np.asarray(ys).tolist(),
                colour=pen.color().name(QColor.NameFormat.HexRgb),
                opacity=pen.color().alphaF(),
                width=width,
                dashes=_dashes(curve, width) if pen.dashPattern() else (),
                dot=curve.dot_size if item is curve.lines[-1] else 0.0,
                base=fill,
                lower=np.where(np.isnan(ys), np.nan, 0.0).tolist() if is_filled else (),
            )
        )
    return lines


def _dashes(curve: Curve, width: float) -> list[float]:
    # On the canvas both ends of a dash are half a line width longer.
    return [
        (length + (1 if place % 2 == 0 else -1)) * width
        for place, length in enumerate(curve.dash.pattern)
    ]


def _marks(plot: CurvePlot) -> list[FigureMark]:
    theme = plot.theme
    gaps = [
        FigureMark(x=float(x), y=None, colour=theme.bad) for x in plot.canvas.gap_ticks.positions
    ]
    return gaps + [
        FigureMark(
            x=marker.x,
            y=plot.canvas.height_of(marker.value),
            colour=marker.colour,
            text=marker.text,
        )
        for marker in plot.canvas.best_markers
    ]
