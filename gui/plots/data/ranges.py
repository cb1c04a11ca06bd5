"""Ranges of numbers for the axes of a plot."""

from __future__ import annotations

from collections.abc import Iterable

Range = tuple[float, float]

_ROUNDING = 1e-6
"""As a part of the values: some steps of float32."""


def union(ranges: Iterable[Range | None]) -> Range | None:
    """Return the smallest range that contains all `ranges`; None if all are None."""
    known = [each for each in ranges if each is not None]
    if not known:
        return None
    return min(low for low, _ in known), max(high for _, high in known)


def spread(values: Range) -> Range:
    """Return `values`; around a constant, 5 % to both sides. What float32 rounds off is no
    difference: an axis of 0.003 to 0.00300000003 says nothing."""
    low, high = values
    size = max(abs(low), abs(high))
    if high - low > _ROUNDING * size:
        return values
    return (low - 0.05 * size, high + 0.05 * size) if size else (-0.5, 0.5)


def padded(bounds: Range, below: float, above: float) -> Range:
    """Return `bounds` with padding at both ends, as parts of their width; the width is never 0."""
    low, high = bounds
    width = high - low
    if width <= 1e-12 * max(abs(low), abs(high)):
        width = 0.1 * abs(low) or 1.0
        low, high = low - width / 2, high + width / 2
    return low - below * width, high + above * width
