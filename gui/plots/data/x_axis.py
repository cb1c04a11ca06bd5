"""The kinds of horizontal axis: steps, epochs, time of training, or wall-clock time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from engine.system.units import date_and_time, duration
from gui.plots.data.growing_pyramid import Array

Indices = npt.NDArray[np.intp]
"""Indices of points."""


class XKind(StrEnum):
    """The kinds; the values are stored in the settings."""

    STEP = "step"
    EPOCH = "epoch"
    RELATIVE = "relative"
    """Seconds of training: pauses count, the time during which the run was down does not."""

    WALL = "wall"
    """Seconds since the Unix epoch, shown as local date and time."""

    @property
    def is_time(self) -> bool:
        """Whether the axis shows seconds."""
        return self in (XKind.RELATIVE, XKind.WALL)


@dataclass(frozen=True)
class Polyline:
    """A piecewise linear function that continues with `slope` after its last corner."""

    xs: tuple[float, ...]
    ys: tuple[float, ...]
    slope: float

    def __call__(self, values: Array) -> Array:
        """Return the function at `values`, both float64 of shape (n,); before the first corner it
        is constant."""
        after = np.maximum(values - self.xs[-1], 0.0)
        result: Array = np.interp(values, self.xs, self.ys) + self.slope * after
        return result

    def with_slope(self, x: float, slope: float) -> Polyline:
        """Return the same function up to `x`, then with another slope; later corners are
        dropped."""
        y = float(self(np.array([x]))[0])
        count = sum(corner < x for corner in self.xs)
        return Polyline((*self.xs[:count], x), (*self.ys[:count], y), slope)


@dataclass(frozen=True)
class XScale:
    """Converts steps and times to positions on the horizontal axis, and describes a position."""

    kind: XKind = XKind.STEP
    epochs: Polyline | None = None
    """From steps to completed epochs; None until training has counted its steps."""

    training: Polyline | None = None
    """From seconds since the Unix epoch to seconds of training; None until the run has begun."""

    restart_times: tuple[float, ...] = ()
    """The start of each attempt after the first, in seconds since the Unix epoch."""

    def breaks(self, times: Array) -> Indices:
        """Return the index of the first point of each later attempt. On a time axis, no line leads
        to that point. `times` are ascending, float64 of shape (n,)."""
        if not self.kind.is_time:
            return np.empty(0, np.intp)
        result: Indices = np.unique(np.searchsorted(times, np.array(self.restart_times)))
        return result[(result > 0) & (result < len(times))]

    def x(self, steps: Array, times: Array) -> Array:
        """Return the positions of points, float64 of shape (n,); NaN where unknown."""
        match self.kind:
            case XKind.STEP:
                return steps
            case XKind.WALL:
                return times
            case XKind.EPOCH:
                return np.full(len(steps), np.nan) if self.epochs is None else self.epochs(steps)
            case XKind.RELATIVE:
                return (
                    np.full(len(times), np.nan) if self.training is None else self.training(times)
                )

    def name(self, x: float, last_step: float = math.nan) -> str:
        """Name the position `x` as the axis counts: `step 1,200`, `epoch 2.50`, a time; of a block
        of steps from there to `last_step`, `steps 1,200 to 1,215`."""
        match self.kind:
            case XKind.STEP:
                return _steps(x, last_step)
            case XKind.EPOCH:
                return f"epoch {x:.2f}"
            case XKind.RELATIVE:
                return duration(x)
            case XKind.WALL:
                return date_and_time(x)

    def number(self, x: float, last_step: float = math.nan) -> str:
        """Return the position `x` as a number of steps or epochs, a block of steps as
        `1,200–1,215`; empty on an axis of time, where hardly two points have one place."""
        match self.kind:
            case XKind.STEP if last_step > x:
                return f"{x:,.0f}–{last_step:,.0f}"
            case XKind.STEP:
                return f"{x:,.0f}"
            case XKind.EPOCH:
                return f"{x:.2f}"
            case _:
                return ""

    def describe(self, x: float, step: float, last_step: float = math.nan) -> str:
        """Describe the position `x` with the step of the nearest point (NaN: unknown), or the steps
        of its block."""
        if self.kind is XKind.STEP:
            done = self.epochs(np.array([x]))[0] if self.epochs else math.nan
            more = "" if math.isnan(done) else f"epoch {done:.1f}"
        else:
            more = "" if math.isnan(step) else _steps(step, last_step)
        return " · ".join(part for part in (self.name(x, last_step), more) if part)


def axis_title(kind: XKind, *, full: bool = False) -> str:
    """Return what stands at the end of a horizontal axis of this kind; in `full` with its unit."""
    match kind:
        case XKind.STEP:
            return "step"
        case XKind.EPOCH:
            return "epoch"
        case XKind.RELATIVE if full:
            return "time of training (h:mm:ss)"
        case XKind.RELATIVE:
            return "time"
        case XKind.WALL if full:
            return "local time"
        case XKind.WALL:
            return "clock"


def _steps(step: float, last: float) -> str:
    if last > step:
        return f"steps {step:,.0f} to {last:,.0f}"
    return f"step {step:,.0f}"
