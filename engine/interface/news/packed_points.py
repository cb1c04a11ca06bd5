"""Curves in few bytes: differences of steps and times, values as float32 where that is exact.

The bytes of each column are sorted by their place in the number, because the stream of frames,
which is deflated, takes columns of equal bytes for almost nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from engine.runs.store.downsampling import Array, BlockStatistics
from engine.runs.store.stored_points import StoredPoints
from engine.system.later import Later

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
else:
    np = Later("numpy")

MOST_POINTS = 2**20
"""Points of one message; a curve is shown in 50,000 at most."""

_MICRO = 1e6
_EXACT = 2.0**53
_KINDS = ("i1", "i2", "i4", "i8", "f4", "f8")


class Column(msgspec.Struct, frozen=True, array_like=True):
    """The numbers of one column."""

    kind: str
    """Of the stored numbers, `i4` or another of `_KINDS`. Integers are differences."""

    first: float
    data: bytes


class PackedPoints(msgspec.Struct, frozen=True):
    """A `StoredPoints`. Times are rounded to microseconds, the means of blocks to float32."""

    count: int
    step: Column
    time: Column
    value: Column
    mean: Column | None = None
    size: Column | None = None


def pack(points: StoredPoints) -> PackedPoints:
    """Return `points` for a message."""
    statistics = points.statistics
    return PackedPoints(
        points.count,
        _differences(points.step, 1.0, is_exact=True),
        _differences(points.time, _MICRO, is_exact=False),
        _floats(points.value),
        None if statistics is None else _rounded(statistics.mean),
        None if statistics is None else _floats(statistics.size),
    )


def unpack(packed: PackedPoints) -> StoredPoints:
    """Return the points of a message. Raises ValueError if it is damaged."""
    step = _numbers(packed.step, 1.0)
    time = _numbers(packed.time, _MICRO)
    value = _numbers(packed.value, 1.0)
    statistics = None
    if packed.mean is not None and packed.size is not None:
        statistics = BlockStatistics(_numbers(packed.mean, 1.0), _numbers(packed.size, 1.0))
    columns = (step, time, value, *(statistics or ()))
    if any(len(column) != len(step) for column in columns):
        raise ValueError("columns of different lengths")
    if not 0 <= packed.count < 2**62 or not _ascends(step):
        raise ValueError("points without an order")
    return StoredPoints(step, time, value, packed.count, statistics)


def _differences(numbers: Array, scale: float, *, is_exact: bool) -> Column:
    """Return ascending `numbers` as differences of integers, if they are whole at this `scale`."""
    if not len(numbers):
        return Column("i1", 0.0, b"")
    whole = np.round(numbers * scale)
    fits = bool(np.all(np.isfinite(whole) & (np.abs(whole) < _EXACT)))
    if not fits or (is_exact and not np.array_equal(whole / scale, numbers)):
        return _floats(numbers)
    first = int(whole[0])
    differences = np.diff(whole.astype("<i8"), prepend=first)
    low, high = int(differences.min()), int(differences.max())
    for kind in ("i1", "i2", "i4"):
        limits = np.iinfo(kind)
        if limits.min <= low and high <= limits.max:
            return _column(kind, float(first), differences.astype(f"<{kind}"))
    return _column("i8", float(first), differences)


def _floats(numbers: Array) -> Column:
    """Return `numbers` as float32, if nothing is lost, else as they are."""
    short = _shortened(numbers)
    if np.array_equal(short.astype(np.float64), numbers, equal_nan=True):
        return _column("f4", 0.0, short)
    return _column("f8", 0.0, numbers.astype("<f8"))


def _rounded(numbers: Array) -> Column:
    """Return `numbers` as float32, unless one is too large for that."""
    short = _shortened(numbers)
    is_kept = np.array_equal(np.isfinite(short), np.isfinite(numbers))
    return _column("f4", 0.0, short) if is_kept else _floats(numbers)


def _shortened(numbers: Array) -> npt.NDArray[np.float32]:
    with np.errstate(over="ignore"):
        return numbers.astype("<f4")


def _column(kind: str, first: float, numbers: npt.NDArray[Any]) -> Column:
    by_place = numbers.view(np.uint8).reshape(len(numbers), numbers.itemsize).T
    return Column(kind, first, by_place.tobytes())


def _numbers(column: Column, scale: float) -> Array:
    """Return the numbers of a column. Raises ValueError."""
    if column.kind not in _KINDS:
        raise ValueError("a column of an unknown kind")
    width = int(column.kind[1])
    count, rest = divmod(len(column.data), width)
    if rest or count > MOST_POINTS:
        raise ValueError("a column of a wrong length")
    by_place = np.frombuffer(column.data, np.uint8).reshape(width, count)
    numbers = np.ascontiguousarray(by_place.T).view(f"<{column.kind}").reshape(count)
    if column.kind[0] == "f":
        return numbers.astype(np.float64)
    if not abs(column.first) < _EXACT:
        raise ValueError("a column that begins nowhere")
    return (int(column.first) + np.cumsum(numbers, dtype=np.int64)) / scale


def _ascends(step: Array) -> bool:
    return bool(np.all(np.isfinite(step)) and np.all(np.diff(step) >= 0))
