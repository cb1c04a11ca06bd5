"""What a picture of a plot shows: its names, axes and curves, in the coordinates of the plot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class FigureColours:
    """Colours as `#rrggbb`."""

    background: str
    text: str
    muted: str
    grid: str


@dataclass(frozen=True, kw_only=True)
class FigureAxis:
    """One axis, from `low` to `high`."""

    title: str
    """What it shows, with its unit."""

    low: float
    high: float
    ticks: Sequence[tuple[float, str]]
    """Position and label of each tick."""


@dataclass(frozen=True, kw_only=True)
class FigureLine:
    """A line through points in ascending order; NaN interrupts it."""

    xs: Sequence[float]
    ys: Sequence[float]
    colour: str
    opacity: float = 1.0
    width: float = 2.0
    """In the units of the picture, as are dashes and dots."""

    dashes: Sequence[float] = ()
    """Lengths of dashes and gaps in turn; empty: a solid line."""

    dot: float = 0.0
    """Diameter of a dot at each point; 0: there are none."""

    base: str = ""
    """The colour of the area below the line; empty: it is not filled."""

    lower: Sequence[float] = ()
    """Where the area ends below each point, NaN where the line has NaN; then it has the opacity of
    the line. Empty: at the lower edge of the plot."""


@dataclass(frozen=True, kw_only=True)
class FigureLegend:
    """The legend's entry of a curve."""

    label: str
    colour: str
    dashes: Sequence[float] = ()


@dataclass(frozen=True, kw_only=True)
class FigureMark:
    """A mark at one point of the plot."""

    x: float
    y: float | None
    """None: a short tick at the lower edge; otherwise a star."""

    colour: str
    text: str = ""
    """What a reader shows when the mouse is over it."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A plot for a picture of `width` times `height` units."""

    width: float
    height: float
    title: str
    """What is drawn, with its unit."""

    source: str
    """The run, or the runs."""

    date: str
    x: FigureAxis
    y: FigureAxis
    lines: Sequence[FigureLine]
    """From the lowest to the uppermost."""

    legend: Sequence[FigureLegend]
    marks: Sequence[FigureMark] = ()
    colours: FigureColours
