"""What a step would allocate with another batch."""

import pytest

from engine.planning.memory import allocations
from engine.planning.memory.allocations import Allocations as Steps


def step(batch: int, *, padding: bool = False) -> list[tuple[int, int]]:
    """Weights' workspace, activations that grow with the batch, gradients of a constant size."""
    extra = [(7, 512), (7, -512)] if padding else []
    return [
        (0, 20_000),
        (1, 1000 * batch),
        *extra,
        (2, 3000 * batch),
        (1, -1000 * batch),
        (3, 50_000),
        (2, -3000 * batch),
        (0, -20_000),
    ]


def grown(small: Steps, large: Steps, batch: int) -> Steps:
    """What a step would allocate with `batch`; `small` is one with 8, `large` one with 16."""
    return allocations.growth(small, 8, large, 16).at(batch)


def test_the_peak_is_that_of_the_blocks_together() -> None:
    assert allocations.peak([(0, 10), (1, 5), (0, -10), (2, 7)]) == 15
    assert allocations.peak([]) == 0


def test_blocks_grow_with_the_batch_or_stay() -> None:
    assert grown(step(8), step(16), 400) == step(400)


def test_another_moment_is_the_peak_with_a_larger_batch() -> None:
    small, large = step(1), grown(step(8), step(16), 100)
    assert allocations.peak(small) == 20_000 + 3000 + 50_000
    assert allocations.peak(large) == 20_000 + 300_000 + max(100_000, 50_000)


def test_a_smaller_batch_needs_less() -> None:
    assert grown(step(8), step(16), 4) == step(4)


def test_steps_that_differ_in_a_few_blocks_are_compared_all_the_same() -> None:
    found = grown(step(8), step(16, padding=True), 400)
    assert found == step(400, padding=True)
    found = grown(step(8, padding=True), step(16), 400)
    assert found == step(400)


def test_a_block_of_the_step_before_keeps_its_size() -> None:
    found = grown([(0, -99)], [(0, -99)], 400)
    assert found == [(0, -99)]


def test_steps_that_have_nothing_in_common_stay_as_they_are() -> None:
    assert grown([(0, 5)], [(0, 10**9), (0, -(10**9))], 64) == [
        (0, 10**9),
        (0, -(10**9)),
    ]


def read(batch: int) -> list[tuple[int, int]]:
    """A step that reads each sample by itself: a generator, noise, a picture; then a batch."""
    found: list[tuple[int, int]] = []
    pictures = []
    for sample in range(batch):
        generator, noise, picture = range(3 * sample + 100, 3 * sample + 103)
        found += [(generator, 5000), (noise, 9000), (picture, 20_000)]
        found += [(noise, -9000), (generator, -5000)]
        pictures.append(picture)
    found += [(99, 20_000 * batch), *((picture, -20_000) for picture in pictures)]
    return [*found, *step(batch), *step(batch), (99, -20_000 * batch)]


def test_what_is_done_for_each_sample_is_repeated_for_more_samples() -> None:
    told = allocations.growth(read(8), 8, read(34), 34)
    assert told.is_told
    assert allocations.peak(told.at(400)) == pytest.approx(allocations.peak(read(400)), rel=1e-4)


def test_steps_that_have_nothing_in_common_tell_nothing() -> None:
    assert not allocations.growth([(0, 5)], 8, [(0, 10**9), (0, -(10**9))], 16).is_told
    assert not allocations.growth(step(8), 8, read(16)[:-9], 16).is_told
    assert allocations.growth(step(8), 8, step(16), 16).is_told
