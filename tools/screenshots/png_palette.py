"""Pictures with 256 colours: a third of the size, and the eye sees no difference."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from PySide6.QtGui import QImage

_COLOURS = 256
_EXACT = 64
"""The most frequent colours, surfaces and text among them, stay as they are."""

_ROUNDS = 4
_AT_ONCE = 4096
"""Colours compared with the palette at once."""

_Colours = npt.NDArray[np.float64]


def with_palette(image: QImage) -> QImage:
    """A copy of `image`, without dither; transparency is lost."""
    plain = image.convertToFormat(QImage.Format.Format_RGB32)
    width, height = plain.width(), plain.height()
    pixels = np.frombuffer(plain.constBits(), np.uint32).reshape(height, -1)[:, :width]
    colours, places, counts = np.unique(pixels, return_inverse=True, return_counts=True)
    values = np.stack([(colours >> shift) & 255 for shift in (16, 8, 0)], axis=1).astype(float)
    palette = _palette(values, counts)
    chosen = _nearest(values, palette).astype(np.uint8)
    indices = np.zeros((height, -(-width // 4) * 4), np.uint8)  # Qt wants lines of whole words
    indices[:, :width] = chosen[places].reshape(height, width)
    result = QImage(
        indices.tobytes(), width, height, indices.shape[1], QImage.Format.Format_Indexed8
    )
    packed = (np.rint(palette).astype(np.uint32) << np.array([16, 8, 0], np.uint32)).sum(axis=1)
    result.setColorTable([0xFF000000 | int(each) for each in packed])
    return result.copy()  # with pixels of its own


def _palette(colours: _Colours, counts: npt.NDArray[np.intp]) -> _Colours:
    """The most frequent colours as they are; the others are gathered around their means."""
    order = np.argsort(counts, kind="stable")[::-1]
    if len(order) <= _COLOURS:
        return colours
    exact = colours[order[:_EXACT]]
    rest, weights = colours[order[_EXACT:]], np.sqrt(counts[order[_EXACT:]].astype(float))
    # Spread over all that there are, from dark to light.
    spread = np.argsort(rest.sum(axis=1), kind="stable")
    means = rest[spread[np.linspace(0, len(rest) - 1, _COLOURS - _EXACT).astype(int)]]
    for _ in range(_ROUNDS):
        nearest = _nearest(rest, means)
        total = np.bincount(nearest, weights, len(means))
        sums = [np.bincount(nearest, weights * rest[:, k], len(means)) for k in range(3)]
        known = total > 0
        means[known] = (np.stack(sums, axis=1)[known].T / total[known]).T
    return np.concatenate((exact, means))


def _nearest(colours: _Colours, palette: _Colours) -> npt.NDArray[np.intp]:
    parts = [
        ((colours[first : first + _AT_ONCE, None] - palette) ** 2).sum(axis=2).argmin(axis=1)
        for first in range(0, len(colours), _AT_ONCE)
    ]
    return np.concatenate(parts)
