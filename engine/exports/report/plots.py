"""The curves of runs as figures: which series share a plot, with which unit, on which axes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from engine.drawing import ticks
from engine.drawing.figure import (
    Figure,
    FigureAxis,
    FigureColours,
    FigureLegend,
    FigureLine,
    FigureMark,
)
from engine.runs.best_metrics import BestFigure
from engine.runs.run_state import ENERGY, STEP_SECONDS, THROUGHPUT
from engine.runs.series_names import GROUPS, is_machine_memory
from engine.runs.store.store_reader import RunReader
from engine.system.units import GIB

MOST_POINTS = 1500
"""Of a curve in a picture; a longer one is drawn as the lowest and highest of each block."""

COLOURS = 8
"""Colours of curves, `--c0` and on in `resources/report/style.css`."""

_WIDTH, _HEIGHT = 620.0, 360.0
_MOST_TICKS = 7
_FEW = 40
"""A curve of at most so many points has dots."""

LARGEST_PERCENTAGE = 100.0
_LOGARITHMIC = 300.0
"""From so large a ratio of values on, all of them positive, the axis is logarithmic."""

_DASHES: tuple[tuple[float, ...], ...] = ((), (8, 4), (2, 3), (10, 3, 2, 3))
_THEME = FigureColours(
    background="var(--card)", text="var(--text)", muted="var(--muted)", grid="var(--line)"
)
"""The colours of the page, which follow those of the reader."""


class Place(NamedTuple):
    """Where a series is drawn."""

    title: str
    label: str
    """Its name in the legend."""

    unit: str = ""
    factor: float = 1.0
    rank: int = 5
    """The lowest comes first."""


class Curve(NamedTuple):
    """A series of a run, as the picture has it."""

    label: str
    steps: list[float]
    values: list[float]
    best: BestFigure | None = None


def place_of(series: str) -> Place:
    """Return where the series of one run is drawn."""
    group, _, name = series.partition("/")
    is_share = "accuracy" in name
    unit, factor = ("%", 100.0) if is_share else ("", 1.0)
    match group:
        case "train" | "validation" if name == "loss":
            return Place("Loss", GROUPS[group], rank=0)
        case "train" if series == THROUGHPUT:
            return Place("Throughput", "train", "samples/s", rank=2)
        case "train" if series == STEP_SECONDS:
            return Place("Step time", "train", "ms", 1000.0, rank=2)
        case "train" if name == "learning_rate":
            return Place("Learning rate", "train", rank=3)
        case "train" if name == "gradient_norm":
            return Place("Gradient norm", "train", rank=4)
        case "train" | "validation" if name:
            return Place(_title(name), GROUPS[group], unit, factor, rank=1)
        case "device" if series == ENERGY:
            return Place("Energy", "GPUs", "Wh", rank=6)
        case "device" if is_machine_memory(series):
            who = name.rpartition("/")[0]
            return Place("Memory of the whole machine", who, "GiB", 1 / GIB, rank=6)
        case "device" | "rank" if "/" in name:
            who, _, figure = name.rpartition("/")
            title, unit, factor = _OF_MACHINE.get(figure, (_title(figure), "", 1.0))
            label = f"rank {who}" if group == "rank" else who
            rank = 6 if group == "device" else 7
            return Place(
                f"{title}, by rank" if group == "rank" else title, label, unit, factor, rank
            )
        case _:
            return Place(series, name or series, rank=5)


_OF_MACHINE = {
    "utilisation": ("Device utilisation", "%", 1.0),
    "memory": ("Device memory", "GiB", 1 / GIB),
    "process_memory": ("Memory of the run's processes", "GiB", 1 / GIB),
    "temperature": ("Device temperature", "°C", 1.0),
    "clock": ("Device clock", "MHz", 1.0),
    "power": ("Device power", "W", 1.0),
    "data_share": ("Data loading in a step", "%", 100.0),
    "compute_share": ("Compute in a step", "%", 100.0),
    "communication_share": ("Communication in a step", "%", 100.0),
    "memory_allocated": ("Allocated memory", "GiB", 1 / GIB),
    "memory_reserved": ("Reserved memory", "GiB", 1 / GIB),
    "memory_resident": ("Resident memory", "GiB", 1 / GIB),
}


def _title(name: str) -> str:
    spaced = name.replace("_", " ")
    return spaced[:1].upper() + spaced[1:]


def read_curve(
    reader: RunReader, series: str, label: str, factor: float, best: BestFigure | None
) -> Curve:
    """Return a series of a run, in the unit of its plot. Raises sqlite3.Error."""
    points = reader.history(series, MOST_POINTS)
    values = [value * factor for value in points.value.tolist()]
    if best is not None:
        best = best._replace(value=best.value * factor)
    return Curve(label, points.step.tolist(), values, best)


def figure_of(
    title: str,
    unit: str,
    source: str,
    date: str,
    curves: Sequence[Curve],
    colours: Mapping[str, int],
) -> Figure | None:
    """Return the picture of `curves`; None: there is nothing to draw. `colours`: their place by
    label."""
    finite = [value for curve in curves for value in curve.values if math.isfinite(value)]
    steps = [step for curve in curves for step in curve.steps]
    if not finite:
        return None
    is_log = min(finite) > 0 and max(finite) / min(finite) > _LOGARITHMIC and not unit
    named = f"{title} ({unit})" if unit else title
    low, high = _room(finite, is_log=is_log)
    if unit == "%" and max(finite) <= LARGEST_PERCENTAGE:
        high = min(high, LARGEST_PERCENTAGE)
    first, last = min(steps), max(steps)
    if first == last:
        first, last = first - 1, last + 1
    return Figure(
        width=_WIDTH,
        height=_HEIGHT,
        title=named,
        source=source,
        date=date,
        x=FigureAxis(title="Step", low=first, high=last, ticks=_step_ticks(first, last)),
        y=_value_axis(named, low, high, is_log=is_log),
        lines=[_line(curve, colours, is_log=is_log) for curve in curves],
        legend=[
            FigureLegend(
                label=curve.label,
                colour=_colour(colours, curve),
                dashes=_dashes(colours, curve),
            )
            for curve in curves
        ],
        marks=_marks(curves, colours, is_log=is_log),
        colours=_THEME,
    )


def histogram_of(
    title: str, source: str, date: str, edges: Sequence[float], counts: Sequence[float]
) -> Figure | None:
    """Return the picture of a histogram; None: there is nothing to draw."""
    bins = list(zip(edges, edges[1:], counts, strict=False))
    if not bins or not all(map(math.isfinite, (*edges, *counts))) or edges[0] >= edges[-1]:
        return None
    low, high = _room([0.0, *counts], is_log=False)
    places = ticks.linear(edges[0], edges[-1], _MOST_TICKS)
    labels, offset = ticks.labels(places, may_have_offset=True)
    outline = FigureLine(
        xs=[edge for left, right, _ in bins for edge in (left, right)],
        ys=[count for _, _, count in bins for _ in range(2)],
        colour=colour_of(0),
        base=colour_of(0),
        width=1.6,
    )
    return Figure(
        width=_WIDTH,
        height=_HEIGHT,
        title=title,
        source=source,
        date=date,
        x=FigureAxis(
            title=f"Value − {offset}" if offset else "Value",
            low=edges[0],
            high=edges[-1],
            ticks=list(zip(places, labels, strict=True)),
        ),
        y=_value_axis("Count", low, high, is_log=False),
        lines=[outline],
        legend=[],
        marks=[],
        colours=_THEME,
    )


def colour_of(place: int) -> str:
    """Return the colour of the curve number `place`, as a value of CSS."""
    return f"var(--c{place % COLOURS})"


def _colour(colours: Mapping[str, int], curve: Curve) -> str:
    return colour_of(colours[curve.label])


def _dashes(colours: Mapping[str, int], curve: Curve) -> tuple[float, ...]:
    """Return the dashes of a curve whose colour another one has already."""
    return _DASHES[colours[curve.label] // COLOURS % len(_DASHES)]


def _line(curve: Curve, colours: Mapping[str, int], *, is_log: bool) -> FigureLine:
    colour, dashes = _colour(colours, curve), _dashes(colours, curve)
    ys = [_height(value, is_log=is_log) for value in curve.values]
    dot = 5.0 if len(ys) <= _FEW else 0.0
    return FigureLine(xs=curve.steps, ys=ys, colour=colour, width=1.6, dashes=dashes, dot=dot)


def _marks(
    curves: Sequence[Curve], colours: Mapping[str, int], *, is_log: bool
) -> list[FigureMark]:
    found = []
    for curve in curves:
        colour = _colour(colours, curve)
        if curve.best is not None:
            y = _height(curve.best.value, is_log=is_log)
            text = f"best of {curve.label}: {curve.best.value:.6g} at step {curve.best.step:,}"
            found.append(FigureMark(x=curve.best.step, y=y, colour=colour, text=text))
        gaps = [
            step
            for step, value in zip(curve.steps, curve.values, strict=True)
            if not math.isfinite(value)
        ]
        found += [
            FigureMark(x=step, y=None, colour="var(--bad)", text=f"{curve.label}: no finite value")
            for step in gaps[:100]
        ]
    return found


def _height(value: float, *, is_log: bool) -> float:
    if not is_log:
        return value
    return math.log10(value) if value > 0 and math.isfinite(value) else math.nan


def _room(values: Sequence[float], *, is_log: bool) -> tuple[float, float]:
    """Return the range of the axis of `values`, with a little room on both sides."""
    low, high = (_height(each, is_log=is_log) for each in (min(values), max(values)))
    room = 0.05 * high - 0.05 * low or 0.1 * abs(high) or 1.0
    bottom = low - room
    if low >= 0 and not is_log:
        bottom = max(bottom, 0.0)
    top = high + room
    if (
        math.isfinite(bottom)
        and math.isfinite(top)
        and math.isfinite(top - bottom)
        and top > bottom
    ):
        return bottom, top
    return low / 2, high / 2  # values so large that their difference is none


def _value_axis(title: str, low: float, high: float, *, is_log: bool) -> FigureAxis:
    make = ticks.logarithmic if is_log else ticks.linear
    places = make(low, high, _MOST_TICKS)
    values = [10.0**place for place in places] if is_log else places
    labels, offset = ticks.labels(values, may_have_offset=not is_log)
    if is_log:
        title = f"{title}, logarithmic"
    return FigureAxis(
        title=f"{title} − {offset}" if offset else title,
        low=low,
        high=high,
        ticks=list(zip(places, labels, strict=True)),
    )


def _step_ticks(first: float, last: float) -> list[tuple[float, str]]:
    places = [each for each in ticks.linear(first, last, _MOST_TICKS) if float(each).is_integer()]
    return list(zip(places, ticks.labels(places).texts, strict=True))


def groups_of(series: Sequence[str]) -> dict[Place, list[tuple[str, Place]]]:
    """Return the series of each plot, the plots in their order."""
    found: dict[Place, list[tuple[str, Place]]] = {}
    for name in series:
        place = place_of(name)
        found.setdefault(place._replace(label=""), []).append((name, place))
    return dict(sorted(found.items(), key=lambda each: each[0].rank))
