"""Curves in messages: exact where it counts, small, and refused where they are nonsense."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from engine.interface.news.packed_points import Column, PackedPoints, pack, unpack
from engine.interface.value_encoding import encode
from engine.runs.store.downsampling import BlockStatistics
from engine.runs.store.stored_points import StoredPoints
from tests.support.generated_values import sixty_examples

BEGIN = 1_760_000_000.0


def made(steps: list[float], values: list[float], **others: BlockStatistics) -> StoredPoints:
    step = np.array(steps, dtype=np.float64)
    time = BEGIN + 0.25 * np.arange(len(step))
    return StoredPoints(step, time, np.array(values, dtype=np.float64), len(step), **others)


def sent(points: StoredPoints) -> StoredPoints:
    """Return `points` after a way through a message."""
    return unpack(msgspec.msgpack.decode(encode(pack(points)), type=PackedPoints))


@pytest.mark.parametrize(
    "points",
    [
        made([], []),
        made([7], [0.1]),
        made([1, 2, 2, 300, 70_000, 5_000_000_000], [0.5, np.nan, np.inf, -np.inf, 1e300, 0.1]),
        made([0.5, 1.5], [1, 2]),
    ],
)
def test_steps_and_values_are_exact(points: StoredPoints) -> None:
    found = sent(points)
    np.testing.assert_array_equal(found.step, points.step)
    np.testing.assert_array_equal(found.value, points.value)
    np.testing.assert_allclose(found.time, points.time, atol=1e-6, rtol=0)
    assert found.count == points.count
    assert found.statistics is None


def test_a_pause_of_a_night_and_a_clock_set_back_keep_the_times() -> None:
    points = made([1, 2, 3], [1, 2, 3])
    points.time[1:] = BEGIN + 40_000, BEGIN - 40_000
    np.testing.assert_allclose(sent(points).time, points.time, atol=1e-6, rtol=0)


def test_the_means_of_blocks_travel_with_them() -> None:
    blocks = BlockStatistics(np.array([0.1, 1e300]), np.array([8.0, 0.5]))
    found = sent(made([1, 1], [0, 2], statistics=blocks)).statistics
    assert found is not None
    np.testing.assert_allclose(found.mean, blocks.mean, rtol=1e-7)
    np.testing.assert_array_equal(found.size, blocks.size)


def test_a_curve_takes_few_bytes() -> None:
    count = 2000
    points = made(list(range(count)), [np.float32(np.sin(k / 50)) for k in range(count)])
    assert len(encode(pack(points))) < count * (1 + 4 + 4) + 200


@sixty_examples
@given(
    arrays.arrays(np.float64, st.integers(0, 30), elements=st.floats(allow_nan=False)),
    arrays.arrays(np.float64, 30),
)
def test_any_numbers_come_back(steps: np.ndarray, values: np.ndarray) -> None:
    step = np.sort(steps[np.isfinite(steps)])
    value = values[: len(step)]
    found = sent(StoredPoints(step, np.zeros(len(step)), value, len(step)))
    np.testing.assert_array_equal(found.step, step)
    np.testing.assert_array_equal(found.value, value)


COLUMN = Column("f8", 0.0, np.arange(3.0).tobytes())


@pytest.mark.parametrize(
    "changes",
    [
        {"step": Column("i1", 0.0, b"\x01")},
        {"value": Column("O8", 0.0, bytes(24))},
        {"time": Column("f8", 0.0, bytes(23))},
        {"step": Column("i4", float("nan"), bytes(12))},
        {"step": Column("i1", 0.0, b"\xff\xff\xff")},
        {"mean": COLUMN, "size": Column("f4", 0.0, bytes(4))},
        {"count": -1},
    ],
)
def test_a_damaged_curve_is_refused(changes: dict[str, object]) -> None:
    good = PackedPoints(3, *(Column("f4", 0.0, bytes(12)),) * 3)
    with pytest.raises(ValueError, match=r"column|points"):
        unpack(msgspec.structs.replace(good, **changes))
