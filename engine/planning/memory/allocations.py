"""What a step allocates at one batch size, from what it has allocated at two smaller ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

Allocations = Sequence[tuple[int, int]]
"""The number of a block and its bytes, in order; negative bytes: it is released."""

LOOK_AHEAD = 16
"""Allocations that one of two steps may have and the other not, before they agree again."""

AGREED = 8
"""So many allocations in a row that fit are taken for the same operations: a few fit by chance."""

TOLERANCE = 1.05
"""Of sizes that grow with the batch: frameworks align and pad blocks."""

PADDING = 4096

ALIKE = 0.9
"""Of what a step allocates: so much must be found again in the smaller step."""


class Growth(NamedTuple):
    """What two steps with different batches have shown of each block of the larger one."""

    large: Allocations
    slopes: Sequence[float]
    """Bytes for each sample, block by block."""

    to: int
    """The batch of `large`."""

    is_told: bool
    """Whether the steps did the same operations, so that the slopes are those of the blocks."""

    def at(self, batch: int) -> Allocations:
        """Return what a step would allocate with `batch`."""
        sizes: dict[int, int] = {}
        found = []
        for (block, size), slope in zip(self.large, self.slopes, strict=True):
            if size > 0:
                sizes[block] = max(1, size + round(slope * (batch - self.to)))
                found.append((block, sizes[block]))
            elif block in sizes:
                found.append((block, -sizes.pop(block)))
            else:  # it was there before the step
                found.append((block, size))
        return found


def peak(allocations: Allocations) -> int:
    """Return the most bytes that blocks took together, beyond what was there before."""
    held = most = 0
    for _, size in allocations:
        held += size
        most = max(most, held)
    return most


def growth(small: Allocations, at: int, large: Allocations, to: int) -> Growth:
    """Compare a step that did `small` with the batch `at` with one that did `large` with `to`.

    Both are the same operations in the same order, but for a few, and for those that are done once
    for each sample, such as reading it. Each block is a constant and a part that is proportional to
    the batch, so two sizes tell both.
    """
    if at == to:
        return Growth(large, [0.0] * len(large), to, is_told=True)
    more, ratio = to - at, to / at
    slopes, known = [0.0] * len(large), 0
    one = other = 0
    while one < len(small) and other < len(large):
        if _fit(small[one][1], large[other][1], ratio):
            slopes[other] = (large[other][1] - small[one][1]) / more
            known += max(0, large[other][1])
            one, other = one + 1, other + 1
        elif near := _near(small, one, large, other, ratio):
            one, other = one + near[0], other + near[1]
        else:
            # The larger batch has more samples, and each repeats what was done for those before.
            samples = _repeated(small, one, large, other, ratio)
            for number in range(other, other + samples):
                slopes[number] = large[number][1] / more
                known += max(0, large[number][1])
            one, other = (one, other + samples) if samples else (len(small), other)
    whole = sum(size for _, size in large if size > 0)
    return Growth(large, slopes, to, is_told=known >= ALIKE * whole)


def _near(
    small: Allocations, one: int, large: Allocations, other: int, ratio: float
) -> tuple[int, int] | None:
    """Return how few of each to leave out, so that the next ones fit again; None: too many."""
    for total in range(1, 2 * LOOK_AHEAD):
        for first in range(total + 1):
            if _agree(small, one + first, large, other + total - first, ratio):
                return first, total - first
    return None


def _repeated(small: Allocations, one: int, large: Allocations, other: int, ratio: float) -> int:
    """Return how many of `large` to leave out, so that the next ones fit again; 0: none fit."""
    for number in range(1, len(large) - other):
        if _agree(small, one, large, other + number, ratio):
            return number
    return 0


def _agree(small: Allocations, one: int, large: Allocations, other: int, ratio: float) -> bool:
    """Whether the next allocations of two steps, up to the end of both, fit."""
    left = len(small) - one, len(large) - other
    if min(left) < 1 or (min(left) < AGREED and left[0] != left[1]):
        return False
    return all(
        _fit(small[one + number][1], large[other + number][1], ratio)
        for number in range(min(AGREED, *left))
    )


def _fit(small: int, large: int, ratio: float) -> bool:
    """Whether two steps did the same: a block of a size that is constant, or grows no faster."""
    if (small > 0) != (large > 0):
        return False
    low, high = abs(small), abs(large)
    return low <= high + PADDING and high <= TOLERANCE * ratio * low + PADDING
