"""What a step would allocate with another batch."""

from engine.planning.memory import allocations


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


def test_the_peak_is_that_of_the_blocks_together() -> None:
    assert allocations.peak([(0, 10), (1, 5), (0, -10), (2, 7)]) == 15
    assert allocations.peak([]) == 0


def test_blocks_grow_with_the_batch_or_stay() -> None:
    assert allocations.grown(step(8), 8, step(16), 16, 400) == step(400)


def test_another_moment_is_the_peak_with_a_larger_batch() -> None:
    small, large = step(1), allocations.grown(step(8), 8, step(16), 16, 100)
    assert allocations.peak(small) == 20_000 + 3000 + 50_000
    assert allocations.peak(large) == 20_000 + 300_000 + max(100_000, 50_000)


def test_a_smaller_batch_needs_less() -> None:
    assert allocations.grown(step(8), 8, step(16), 16, 4) == step(4)


def test_steps_that_differ_in_a_few_blocks_are_compared_all_the_same() -> None:
    found = allocations.grown(step(8), 8, step(16, padding=True), 16, 400)
    assert found == step(400, padding=True)
    found = allocations.grown(step(8, padding=True), 8, step(16), 16, 400)
    assert found == step(400)


def test_a_block_of_the_step_before_keeps_its_size() -> None:
    found = allocations.grown([(0, -99)], 8, [(0, -99)], 16, 400)
    assert found == [(0, -99)]


def test_steps_that_have_nothing_in_common_stay_as_they_are() -> None:
    assert allocations.grown([(0, 5)], 8, [(0, 10**9), (0, -(10**9))], 16, 64) == [
        (0, 10**9),
        (0, -(10**9)),
    ]
