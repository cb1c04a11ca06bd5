"""What the horizontal axis counts: steps, epochs, time of training, or the clock on the wall."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from engine.system.units import date_and_time, duration
from gui.plots.data.growing_pyramid import Array
from gui.style.translation import translate

Places = npt.NDArray[np.intp]
"""Numbers of points, counted from 0."""


class XKind(StrEnum):
    """The choices, as the settings keep them."""

    STEP = "step"
    EPOCH = "epoch"
    RELATIVE = "relative"
    """Seconds of training: pauses count, the time in which the run was down does not."""

    WALL = "wall"
    """Seconds since the Unix epoch, said as local date and time."""

    @property
    def is_time(self) -> bool:
        """Whether it counts seconds."""
        return self in (XKind.RELATIVE, XKind.WALL)


@dataclass(frozen=True)
class Polyline:
    """A function that is linear between corners, and goes on with `slope` after the last one."""

    xs: tuple[float, ...]
    ys: tuple[float, ...]
    slope: float

    def __call__(self, values: Array) -> Array:
        """The function at `values`; before the first corner it stays what it is there."""
        after = np.maximum(values - self.xs[-1], 0.0)
        found: Array = np.interp(values, self.xs, self.ys) + self.slope * after
        return found

    def bent(self, x: float, slope: float) -> Polyline:
        """The same up to `x`, and from there on with another slope; later corners are gone."""
        y = float(self(np.array([x]))[0])
        kept = sum(corner < x for corner in self.xs)
        return Polyline((*self.xs[:kept], x), (*self.ys[:kept], y), slope)


@dataclass(frozen=True)
class XScale:
    """Where points stand on the horizontal axis, and how a place there is said."""

    kind: XKind = XKind.STEP
    epochs: Polyline | None = None
    """From steps to epochs done; None before training has counted its steps."""

    training: Polyline | None = None
    """From seconds since the Unix epoch to seconds of training; None before the run has begun."""

    returns: tuple[float, ...] = ()
    """When the run came back after it had been down, in seconds since the Unix epoch."""

    def breaks(self, times: Array) -> Places:
        """Which of the ascending `times` are the first after the run was down: on an axis of time
        no line leads to them from the ones before."""
        if not self.kind.is_time:
            return np.empty(0, np.intp)
        found: Places = np.unique(np.searchsorted(times, np.array(self.returns)))
        return found[(found > 0) & (found < len(times))]

    def x(self, steps: Array, times: Array) -> Array:
        """Places of points; NaN where they have none (yet)."""
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

    def words(self, x: float, step: float) -> str:
        """The place `x`, with the step of the nearest point (NaN: not known)."""
        steps = "" if math.isnan(step) else _step(step)
        match self.kind:
            case XKind.STEP:
                done = self.epochs(np.array([x]))[0] if self.epochs else math.nan
                text = translate("XScale", "epoch {epoch:.1f}")
                epoch = "" if math.isnan(done) else text.format(epoch=done)
                parts = (_step(x), epoch)
            case XKind.EPOCH:
                parts = (translate("XScale", "epoch {epoch:.2f}").format(epoch=x), steps)
            case XKind.RELATIVE:
                parts = (duration(x), steps)
            case XKind.WALL:
                parts = (date_and_time(x), steps)
        return " · ".join(part for part in parts if part)


def _step(step: float) -> str:
    return translate("XScale", "step {step:,.0f}").format(step=step)
