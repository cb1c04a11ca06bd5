"""The messages of TensorBoard's event files: points, images, histograms and hyperparameters."""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Mapping, Sequence

from engine.exports.protobuf_wire import content, double, doubles, single, varint

EXACT_VALUE = 5001
"""The field of a value that holds a point with all its bits, where TensorBoard's own field, a
32-bit float, does not. TensorBoard leaves it out; our import reads it."""

METRIC_DIRECTIONS = "traindeck/metric_directions"
"""The tag of a text that tells which way each metric is better, one in a line: `mae: min`.
TensorBoard shows it among its texts; our import reads it."""

_FILE_VERSION = "brain.Event:2"
_SESSION_START = 1
_SUCCESS = 1
_STRING = 7
"""The type of a tensor of texts."""


def first_event(time: float) -> bytes:
    """Return the event with which a file begins."""
    return double(1, time) + content(3, _FILE_VERSION)


def purge_event(time: float, step: int) -> bytes:
    """Return the event that lets a reader drop all it has read from `step` on."""
    return double(1, time) + varint(2, step) + content(7, varint(1, _SESSION_START))


def scalar_event(tag: str, step: int, time: float, value: float) -> bytes:
    """Return the event of a point."""
    fields = content(1, tag) + single(2, value)
    if not _fits_single(value):
        fields += double(EXACT_VALUE, value)
    return _summary(step, time, fields)


def image_event(tag: str, step: int, time: float, image: bytes, size: tuple[int, int]) -> bytes:
    """Return the event of an image, the content of a PNG; `size` is its width and height."""
    width, height = size
    fields = varint(1, height) + varint(2, width) + varint(3, 4) + content(4, image)
    return _summary(step, time, content(1, tag) + content(4, fields))


def histogram_event(
    tag: str, step: int, time: float, edges: Sequence[float], counts: Sequence[float]
) -> bytes:
    """Return the event of a histogram whose bins lie between `edges`, one more than `counts`."""
    middles = [(low + high) / 2 for low, high in itertools.pairwise(edges)]
    weighted = list(zip(middles, counts, strict=False))
    fields = (
        double(1, edges[0])
        + double(2, edges[-1])
        + double(3, math.fsum(counts))
        + double(4, math.fsum(middle * count for middle, count in weighted))
        + double(5, math.fsum(middle**2 * count for middle, count in weighted))
        # A bucket is told by its upper limit: an empty one in front tells where the first begins.
        + doubles(6, list(edges))
        + doubles(7, [0.0, *counts])
    )
    return _summary(step, time, content(1, tag) + content(5, fields))


def settings_event(time: float, settings: Mapping[str, bool | float | str], group: str) -> bytes:
    """Return the event that tells the hyperparameters of a run."""
    entries = b"".join(
        content(1, content(1, name) + content(2, _plain_value(value)))
        for name, value in settings.items()
    )
    return _hparams("session_start_info", time, 3, entries + content(4, group) + double(5, time))


def end_event(time: float) -> bytes:
    """Return the event that tells that the run has finished."""
    return _hparams("session_end_info", time, 4, varint(1, _SUCCESS) + double(2, time))


def directions_event(time: float, directions: Mapping[str, str]) -> bytes:
    """Return the event of the text that tells which way each metric is better."""
    lines = "\n".join(f"{name}: {direction}" for name, direction in sorted(directions.items()))
    tensor = varint(1, _STRING) + content(2, b"") + content(8, lines)
    fields = content(1, METRIC_DIRECTIONS) + content(8, tensor) + content(9, _plugin("text", b""))
    return _summary(0, time, fields)


def _plugin(name: str, body: bytes) -> bytes:
    """Return the metadata that tell which part of TensorBoard shows a value."""
    return content(1, content(1, name) + content(2, body))


def _plain_value(value: bool | float | str) -> bytes:
    """Return a `google.protobuf.Value`."""
    if isinstance(value, bool):
        return b"\x20" + bytes((value,))  # also False is told
    return content(3, value) if isinstance(value, str) else double(2, float(value))


def _hparams(name: str, time: float, field: int, body: bytes) -> bytes:
    plugin = _plugin("hparams", content(field, body))
    fields = content(1, f"_hparams_/{name}") + content(9, plugin)
    return _summary(0, time, fields)


def _summary(step: int, time: float, value: bytes) -> bytes:
    return double(1, time) + varint(2, step) + content(5, content(1, value))


def _fits_single(value: float) -> bool:
    if math.isnan(value):
        return True
    try:
        return bool(struct.unpack("<f", struct.pack("<f", value))[0] == value)
    except OverflowError:
        return False
