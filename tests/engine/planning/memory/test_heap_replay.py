"""The heap of a process that repeats the allocations of a step."""

import pytest

from engine.planning.memory.heap_replay import heap_peaks
from engine.processes.process_tree import ON_LINUX

MIB = 2**20

pytestmark = pytest.mark.usefixtures("processes")


def test_a_heap_is_as_large_as_its_blocks_at_least() -> None:
    step = [(0, 40 * MIB), (1, 3 * MIB), (0, -40 * MIB), (2, MIB)]
    (found,) = heap_peaks([step])
    assert 43 * MIB <= found < 80 * MIB


def test_gaps_between_blocks_count() -> None:
    small = [(number, 100_000) for number in range(400)]
    every_second = [(number, -100_000) for number in range(0, 400, 2)]
    larger = [(1000 + number, 150_000) for number in range(200)]
    step = [*small, *every_second, *larger]
    (found,) = heap_peaks([step])
    alone = 400 * 100_000 - 200 * 100_000 + 200 * 150_000
    assert found >= alone
    if ON_LINUX:  # no larger block fits into a gap
        assert found > alone + 10 * MIB


def test_what_no_machine_allows_is_the_sum_of_its_blocks() -> None:
    assert heap_peaks([[(0, 2**60)]]) == [2**60]
