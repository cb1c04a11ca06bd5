"""What a step allocates at one batch size, from what it has allocated at two smaller ones."""

from __future__ import annotations

from collections.abc import Sequence

Allocations = Sequence[tuple[int, int]]
"""The number of a block and its bytes, in order; negative bytes: it is released."""

LOOK_AHEAD = 16
"""Allocations that one of two steps may have and the other not, before they agree again."""

TOLERANCE = 1.05
"""Of sizes that grow with the batch: frameworks align and pad blocks."""

PADDING = 4096


def peak(allocations: Allocations) -> int:
    """Return the most bytes that blocks took together, beyond what was there before."""
    held = most = 0
    for _, size in allocations:
        held += size
        most = max(most, held)
    return most


def grown(small: Allocations, at: int, large: Allocations, to: int, batch: int) -> Allocations:
    """Return what a step would allocate with `batch`: it did `small` with `at`, `large` with `to`.

    Both are the same operations in the same order, but for a few. Each block is a constant and a
    part that is proportional to the batch, so two sizes tell both.
    """
    slopes = _slopes(small, large, to / at, to - at)
    sizes: dict[int, int] = {}
    found = []
    for (block, size), slope in zip(large, slopes, strict=True):
        if size > 0:
            sizes[block] = max(1, size + round(slope * (batch - to)))
            found.append((block, sizes[block]))
        elif block in sizes:
            found.append((block, -sizes.pop(block)))
        else:  # it was there before the step
            found.append((block, size))
    return found


def _slopes(small: Allocations, large: Allocations, ratio: float, more: int) -> list[float]:
    """Return the bytes per sample of each of `large`; 0 for one that `small` has not."""
    slopes, at = [0.0] * len(large), 0
    number = 0
    while number < len(large) and at < len(small):
        if not _fit(small[at][1], large[number][1], ratio):
            skipped = _next_fit(small, at, large, number, ratio)
            at, number = at + skipped[0], number + skipped[1]
            if at >= len(small) or number >= len(large):
                break
        slopes[number] = (large[number][1] - small[at][1]) / more
        at, number = at + 1, number + 1
    return slopes


def _next_fit(
    small: Allocations, at: int, large: Allocations, number: int, ratio: float
) -> tuple[int, int]:
    """Return how many of each to leave out, so that the next ones fit again."""
    for total in range(1, 2 * LOOK_AHEAD):
        for first in range(total + 1):
            one, other = at + first, number + total - first
            is_inside = one < len(small) and other < len(large)
            if is_inside and _fit(small[one][1], large[other][1], ratio):
                return first, total - first
    return len(small), 0


def _fit(small: int, large: int, ratio: float) -> bool:
    """Whether two steps did the same: a block of a size that is constant, or grows no faster."""
    if (small > 0) != (large > 0):
        return False
    low, high = abs(small), abs(large)
    return low <= high + PADDING and high <= TOLERANCE * ratio * low + PADDING
