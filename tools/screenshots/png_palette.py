"""Reduces a picture to 256 colours: a third of the size, without a visible difference."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from PySide6.QtGui import QImage

_COLOURS = 256
_EXACT = 64
"""So many of the most frequent colours, such as those of surfaces and text, stay exact."""

_ROUNDS = 4
_AT_ONCE = 4096
"""Colours that are compared with the palette at once."""

_Colours = npt.NDArray[np.float64]


def with_palette(image: QImage) -> QImage:
    """Return a copy of `image` with 256 colours, without dithering and without transparency."""
    plain = image.convertToFormat(QImage.Format.Format_RGB32)
    width, height = plain.width(), plain.height()
    pixels = np.frombuffer(plain.constBits(), np.uint32).reshape(height, -1)[:, :width]
    colours, places, counts = np.unique(pixels, return_inverse=True, return_counts=True)
    values = np.stack([(colours >> shift) & 255 for shift in (16, 8, 0)], axis=1).astype(float)
    palette = _palette(values, counts)
    chosen = _nearest(values, palette).astype(np.uint8)
    indices = np.zeros((height, -(-width // 4) * 4), np.uint8)  # lines of whole 32-bit words
    indices[:, :width] = chosen[places].reshape(height, width)
    result = QImage(
        indices.tobytes(), width, height, indices.shape[1], QImage.Format.Format_Indexed8
    )
    packed = (np.rint(palette).astype(np.uint32) << np.array([16, 8, 0], np.uint32)).sum(axis=1)
    result.setColorTable([0xFF000000 | int(each) for each in packed])
    return result.copy()  # the copy owns its pixels


def _palette(colours: _Colours, counts: npt.NDArray[np.intp]) -> _Colours:
    """Return the palette: the most frequent colours, and the means of the others (k-means).

    `colours` is (n, 3), `counts` is (n,); the palette is (at most 256, 3).
    """
    order = np.argsort(counts, kind="stable")[::-1]
    if len(order) <= _COLOURS:
        return colours
    exact = colours[order[:_EXACT]]
    rest, weights = colours[order[_EXACT:]], np.sqrt(counts[order[_EXACT:]].astype(float))
    # The first means are spread over all colours, from dark to light.
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
