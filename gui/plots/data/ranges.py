"""Ranges of numbers for the axes of a plot."""

from __future__ import annotations

from collections.abc import Iterable

Range = tuple[float, float]


def union(ranges: Iterable[Range | None]) -> Range | None:
    """The smallest range around all that are there."""
    there = [each for each in ranges if each is not None]
    if not there:
        return None
    return min(low for low, _ in there), max(high for _, high in there)


def padded(bounds: Range, below: float, above: float) -> Range:
    """`bounds` with room at both ends, in parts of their width; never of width 0."""
    low, high = bounds
    width = high - low
    if width <= 1e-12 * max(abs(low), abs(high)):
        width = 0.1 * abs(low) or 1.0
        low, high = low - width / 2, high + width / 2
    return low - below * width, high + above * width
