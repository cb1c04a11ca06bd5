"""A pyramid of blocks with minimum, mean and maximum.

Any zoom of a curve reads a few thousand blocks and shows every spike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from engine.system.later import Later

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.float64]
else:
    np, Array = Later("numpy"), Any


FACTOR = 16
"""Children per block: a block of level k stands for FACTOR**k points."""


class Blocks(NamedTuple):
    """Consecutive blocks of one level: float64 arrays of shape (blocks,)."""

    step: Array
    """Step of each block's first point."""

    time: Array
    low: Array
    """Smallest value; NaN only if every point is NaN."""

    high: Array
    mean: Array
    """Mean of the finite values; NaN if there are none."""


class BlockStatistics(NamedTuple):
    """Statistics behind each drawn point of blocks: float64 arrays of shape (points,)."""

    mean: Array
    """Mean of the stored points behind the drawn point."""

    size: Array
    """Number of these stored points: half of the block, because two drawn points show a block."""

    def scaled(self, factor: float) -> BlockStatistics:
        """Return a copy for values that are `factor` times as large."""
        return self._replace(mean=self.mean * factor)


def single(steps: Array, times: Array, values: Array) -> Blocks:
    """Return points, three float64 arrays of shape (points,), as blocks of level 0."""
    return Blocks(steps, times, values, values, values)


def concatenate(*blocks: Blocks) -> Blocks:
    """Return all `blocks` (at least one) in this order, as new arrays."""
    return Blocks(*(np.concatenate(columns) for columns in zip(*blocks, strict=True)))


def merge(children: Blocks) -> tuple[Blocks, Blocks]:
    """Group `children` by FACTOR; return the complete parents and the remaining children."""
    full = len(children.step) // FACTOR * FACTOR
    groups = [column[:full].reshape(-1, FACTOR) for column in children]
    parents = Blocks(
        groups[0][:, 0],
        groups[1][:, 0],
        np.fmin.reduce(groups[2], axis=1),
        np.fmax.reduce(groups[3], axis=1),
        _mean(groups[4]),
    )
    return parents, Blocks(*(column[full:] for column in children))


class PyramidTail:
    """The blocks of one series that do not fill a parent block yet, by level."""

    def __init__(self, pending: list[Blocks] | None = None) -> None:
        self._pending = pending or []

    def extend(self, points: Blocks) -> list[Blocks]:
        """Add new points (blocks of level 0); return the completed blocks of level 1, 2, ..."""
        completed = []
        level = 0
        children = points
        while len(children.step):
            if level < len(self._pending):
                children = concatenate(self._pending[level], children)
            else:
                self._pending.append(children)
            parents, self._pending[level] = merge(children)
            completed.append(parents)
            children = parents
            level += 1
        return completed


def zigzag(blocks: Blocks) -> tuple[Array, Array, Array]:
    """Return steps, times and values of a line through low and high of each block.

    Each has the shape (2 × blocks,).
    """
    values = np.empty(2 * len(blocks.step))
    values[0::2], values[1::2] = blocks.low, blocks.high
    return np.repeat(blocks.step, 2), np.repeat(blocks.time, 2), values


def _mean(rows: Array) -> Array:
    finite = np.isfinite(rows)
    count = finite.sum(axis=1)
    means = np.full(len(rows), np.nan)
    with np.errstate(over="ignore"):  # values near the largest double
        sums = np.where(finite, rows, 0.0).sum(axis=1)
    np.divide(sums, count, out=means, where=count > 0)
    return means
