"""The history of a device: all values of the last minutes, and means of the hours before."""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from engine.telemetry.snapshot import DeviceSnapshot

Array = npt.NDArray[np.float64]
Field = Literal["utilisation", "memory_used", "temperature", "power", "clock"]
FIELDS: tuple[Field, ...] = get_args(Field)
"""The stored fields of DeviceSnapshot."""

RECENT_POINTS = 600
"""Number of stored snapshots: 10 minutes at one per second."""

BUCKET_SECONDS = 10.0
BUCKETS = 6 * 360
"""Number of stored means: six hours."""

_LONGEST_STEP = 15.0
"""Seconds between two points; a longer step is a gap in the line."""


class DeviceHistory:
    """The history of one device, in at most about 270 kB."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Delete all values."""
        self._recent = _Ring(RECENT_POINTS)
        self._means = _Ring(BUCKETS)
        self._last = -math.inf
        self._bucket = -math.inf
        self._sums = np.zeros(len(FIELDS))
        self._counts = np.zeros(len(FIELDS))

    def add(self, time: float, device: DeviceSnapshot) -> None:
        """Add the snapshot of `time` (seconds since the epoch); ignore the same time again.

        An earlier time starts a new history, because the clock was set back.
        """
        if time == self._last:
            return
        if time < self._last:
            self.clear()
        values = [getattr(device, field) for field in FIELDS]
        row = np.array(values, dtype=np.float64)  # None becomes NaN
        self._add_to_mean(time, row)
        if time - self._last > _LONGEST_STEP and self._last > -math.inf:
            self._recent.append(self._last + BUCKET_SECONDS, np.full(len(FIELDS), math.nan))
        self._recent.append(time, row)
        self._last = time

    def recent(self, field: Field, seconds: float) -> tuple[Array, Array]:
        """Return times (seconds since the epoch, ascending) and values of the last `seconds`.

        Both are new float64 arrays of shape (points,). Older values are means over 10 s; NaN is a
        gap.
        """
        column = FIELDS.index(field)
        since = self._last - seconds
        times, values = self._recent.times, self._recent.rows[:, column]
        if len(times) and times[0] > since:
            older = self._means.times + BUCKET_SECONDS <= times[0]
            times = np.concatenate([self._means.times[older] + BUCKET_SECONDS / 2, times])
            values = np.concatenate([self._means.rows[older, column], values])
        first = int(np.searchsorted(times, since))
        return times[first:].copy(), values[first:].copy()

    def _add_to_mean(self, time: float, row: Array) -> None:
        bucket = time // BUCKET_SECONDS * BUCKET_SECONDS
        if bucket != self._bucket:
            self._close_bucket()
            if bucket > self._bucket + BUCKET_SECONDS and self._bucket > -math.inf:
                missed = self._bucket + BUCKET_SECONDS
                self._means.append(missed, np.full(len(FIELDS), math.nan))
            self._bucket = bucket
            self._sums[:] = self._counts[:] = 0
        known = ~np.isnan(row)
        self._sums[known] += row[known]
        self._counts += known

    def _close_bucket(self) -> None:
        if self._bucket > -math.inf:
            unknown = np.full(len(FIELDS), math.nan)
            means = np.divide(self._sums, self._counts, out=unknown, where=self._counts > 0)
            self._means.append(self._bucket, means)


class _Ring:
    """A ring buffer of rows of numbers, each with its time."""

    def __init__(self, most: int) -> None:
        # Twice as long as needed, so that the newest rows are always contiguous.
        self._most = most
        self._times = np.empty(2 * most)
        self._rows = np.empty((2 * most, len(FIELDS)))
        self._end = 0

    def append(self, time: float, row: Array) -> None:
        if self._end == len(self._times):
            self._times[: self._most] = self._times[self._most :]
            self._rows[: self._most] = self._rows[self._most :]
            self._end = self._most
        self._times[self._end] = time
        self._rows[self._end] = row
        self._end += 1

    @property
    def times(self) -> Array:
        return self._times[max(0, self._end - self._most) : self._end]

    @property
    def rows(self) -> Array:
        return self._rows[max(0, self._end - self._most) : self._end]
