"""What is shown of a sample: extremes of its numbers, its text, a small picture, its target."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.training.probes.step_inspection import Inputs, Picture

PICTURE_SIZE = 48
"""Pixels of the longer side of a picture, at most."""

LONGEST_TEXT = 160
MOST_NUMBERS = 16
"""Numbers of a sample that are shown as text."""


def describe_inputs(leaves: Sequence[NDArray[np.generic] | str], *, shows: bool) -> Inputs:
    """Return what is shown of one sample, given its arrays and texts; `shows`: with a picture."""
    texts = [leaf for leaf in leaves if isinstance(leaf, str)]
    arrays = [leaf for leaf in leaves if not isinstance(leaf, str)]
    numbers = [a for a in arrays if a.size and a.dtype.kind in "fiub"]
    smallest, largest, not_finite, total, count = math.inf, -math.inf, 0, 0.0, 0
    for array in numbers:
        is_finite = np.isfinite(array) if array.dtype.kind == "f" else np.ones(array.shape, bool)
        not_finite += int((~is_finite).sum())
        if is_finite.any():
            smallest = min(smallest, float(array[is_finite].min()))
            largest = max(largest, float(array[is_finite].max()))
            total += float(array[is_finite].sum(dtype=np.float64))
            count += int(is_finite.sum())
    if not texts and numbers and numbers[0].ndim <= 1:
        flat = numbers[0].reshape(-1)
        shown = ", ".join(f"{value:.4g}" for value in flat[:MOST_NUMBERS].tolist())
        texts.append(shown + ", …" * (flat.size > MOST_NUMBERS))
    has_numbers = smallest <= largest
    return Inputs(
        smallest=smallest if has_numbers else math.nan,
        largest=largest if has_numbers else math.nan,
        mean=total / count if count else math.nan,
        not_finite=not_finite,
        text=" ".join(texts)[:LONGEST_TEXT],
        picture=next(filter(None, map(picture_of, numbers)), None) if shows else None,
    )


def describe_target(leaf: NDArray[np.generic] | str) -> str:
    """Return a target as text: a class or a number, else its shape."""
    if isinstance(leaf, str):
        return leaf[:LONGEST_TEXT]
    if leaf.size == 1:
        return f"{leaf.reshape(-1)[0].item():.6g}" if leaf.dtype.kind in "fiub" else ""
    return f"shape {' × '.join(map(str, leaf.shape))}"


def picture_of(array: NDArray[np.generic]) -> Picture | None:
    """Return a small image of an array that may be one: of 1 or 3 channels, first or last.

    Its darkest value becomes black and its brightest one white. None: it is no image.
    """
    if array.ndim == 2:
        array = array[:, :, None]
    elif array.ndim == 3 and array.shape[0] in (1, 3):
        array = np.moveaxis(array, 0, 2)
    if array.ndim != 3 or array.shape[2] not in (1, 3) or min(array.shape[:2]) < 4:
        return None
    every = -(-max(array.shape[:2]) // PICTURE_SIZE)
    small = np.nan_to_num(array[::every, ::every].astype(np.float64), posinf=0.0, neginf=0.0)
    low, high = float(small.min()), float(small.max())
    bytes_of = ((small - low) / ((high - low) or 1.0) * 255).astype(np.uint8)
    height, width, channels = bytes_of.shape
    return Picture(width, height, channels, bytes_of.tobytes())
