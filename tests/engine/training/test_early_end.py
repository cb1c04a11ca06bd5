"""A chunk that ends early ends after the same step on all ranks, which use no collective for it."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import pytest

from engine.files import scratch_folder
from engine.training import early_end
from engine.training.early_end import AHEAD, EarlyEnd

COUNT = 400
SECONDS = 60.0


@pytest.fixture
def scratch(monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = scratch_folder.make()
    assert folder is not None
    monkeypatch.setenv(early_end.SCRATCH, str(folder))
    yield folder
    scratch_folder.remove(folder)
    assert not folder.exists()
    assert scratch_folder.shared_page(folder) is None


def test_one_rank_ends_before_the_next_step_and_never_before_the_first() -> None:
    wanted = [False]
    part = EarlyEnd(0, 1, lambda: wanted[0])
    part.begin(5)
    assert [part.goes_on(0), part.goes_on(1)] == [True, True]
    wanted[0] = True
    assert not part.goes_on(2)
    part.begin(5)
    assert [part.goes_on(0), part.goes_on(1)] == [True, False]


def test_steps_that_have_become_slow_end_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early_end, "LONGEST_CHUNK", -1.0)
    part = EarlyEnd(0, 1, lambda: False)
    part.begin(5)
    assert [part.goes_on(0), part.goes_on(1)] == [True, False]


@pytest.mark.parametrize("seed", range(5))
def test_all_ranks_do_the_same_steps_also_if_they_run_ahead(scratch: Path, seed: int) -> None:
    """No barrier holds the ranks together here, unlike the collectives of a training."""
    generator = random.Random(seed)
    asked = threading.Event()
    done: dict[int, list[int]] = {rank: [] for rank in range(3)}
    pauses = {rank: [generator.random() * 2e-4 for _ in range(COUNT)] for rank in range(3)}
    between = threading.Barrier(3, timeout=SECONDS)  # in a training, the agreement
    at = generator.randrange(1, COUNT // 2)

    def train(rank: int) -> None:
        part = EarlyEnd(rank, 3, asked.is_set)
        part.agree(lambda word: word)
        for _ in range(3):  # chunks
            between.wait()
            part.begin(COUNT)
            number = 0
            while number < COUNT and part.goes_on(number):
                if rank == 0 and number == at:
                    asked.set()
                time.sleep(pauses[rank][number])
                number += 1
            done[rank].append(number)
            if rank == 0:
                asked.clear()  # as when the commands are collected

    ranks = [threading.Thread(target=train, args=(rank,)) for rank in range(3)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join(SECONDS)
        assert not rank.is_alive()
    assert done[0] == done[1] == done[2] == [at + 1 + AHEAD] * 3


def test_without_a_page_on_any_rank_chunks_do_not_end_early(
    scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = EarlyEnd(0, 2, lambda: True)
    part.agree(lambda word: (1, 0))  # the other rank has none
    part.begin(5)
    assert all(map(part.goes_on, range(5)))
    monkeypatch.delenv(early_end.SCRATCH)
    words = []
    part = EarlyEnd(1, 2, lambda: True)
    part.agree(lambda word: words.append(word) or word)
    part.begin(5)
    assert words == [(1, 0)]
    assert all(map(part.goes_on, range(5)))
