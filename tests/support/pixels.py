"""The pixels of a picture as one array: to ask Qt for each of 100,000 takes seconds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PySide6.QtGui import QColor, QImage


def colours(image: QImage) -> set[str]:
    """Return the names of all colours of a picture."""
    return {f"#{bytes(each).hex()}" for each in np.unique(_flat(image), axis=0).astype(np.uint8)}


def count_colour(image: QImage, name: str, *, less_than: int) -> int:
    """Return the number of pixels that differ from a colour by `less_than`, over all channels."""
    wanted = QColor(name)
    distance = np.abs(_flat(image) - (wanted.red(), wanted.green(), wanted.blue())).sum(axis=1)
    return int((distance < less_than).sum())


def _flat(image: QImage) -> NDArray[np.int64]:
    """Red, green and blue of each pixel."""
    plain = image.convertToFormat(QImage.Format.Format_RGB888)
    lines = np.frombuffer(plain.constBits(), np.uint8).reshape(plain.height(), -1)
    return lines[:, : 3 * plain.width()].reshape(-1, 3).astype(np.int64)
