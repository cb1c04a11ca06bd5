from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
from traindeck_watch.loggers import media


def pixels(png):
    """Height, width, channels and the values of a PNG without filters."""
    width, height, _, colour = struct.unpack(">IIBB", png[16:26])
    channels = {0: 1, 2: 3, 6: 4}[colour]
    place, data = 8, b""
    while place < len(png):
        (length,) = struct.unpack(">I", png[place : place + 4])
        if png[place + 4 : place + 8] == b"IDAT":
            data += png[place + 8 : place + 8 + length]
        place += 12 + length
    rows = np.frombuffer(zlib.decompress(data), np.uint8).reshape(height, -1)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(height, width, channels)


def test_bytes_are_kept_as_they_are():
    image = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
    png, width, height = media.as_png(image)
    assert (width, height) == (3, 2)
    assert (pixels(png) == image).all()


def test_a_tensor_with_its_channels_in_front_between_0_and_1():
    image = np.zeros((3, 2, 4), np.float32)
    image[1] = 1.0
    found = pixels(media.as_png(image, "CHW")[0])
    assert found.shape == (2, 4, 3)
    assert (found[..., 1] == 255).all()
    assert not found[..., 0].any()


def test_several_pictures_are_a_grid():
    images = np.stack([np.full((1, 2, 2), value, np.uint8) for value in (10, 20, 30)])
    found = pixels(media.as_png(images, "NCHW")[0])[..., 0]
    assert found.tolist() == [[10, 10, 20, 20], [10, 10, 20, 20], [30, 30, 0, 0], [30, 30, 0, 0]]


def test_a_huge_picture_is_made_smaller():
    _, width, height = media.as_png(np.zeros((media.LARGEST_SIDE * 2, 10), np.uint8))
    assert (width, height) == (5, media.LARGEST_SIDE)


@pytest.mark.parametrize("shape", [(4,), (2, 3, 7), (1, 2, 3, 4, 5)])
def test_what_is_no_picture_is_refused(shape):
    with pytest.raises(ValueError, match="is no picture"):
        media.as_png(np.zeros(shape))


def test_a_histogram_counts_what_is_finite():
    values = np.array([0.0, 1.0, 1.0, float("nan"), float("inf")])
    edges, counts = media.as_histogram(values)
    assert len(edges) == len(counts) + 1 == media.BINS + 1
    assert (edges[0], edges[-1]) == (0.0, 1.0)
    assert (counts[0], counts[-1], sum(counts)) == (1.0, 2.0, 3.0)
