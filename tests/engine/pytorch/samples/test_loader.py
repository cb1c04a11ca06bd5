"""Samples that are fetched one by one: the same ones, whoever fetches them."""

from __future__ import annotations

import os
import random

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

from engine.pytorch.samples.loader import MapSamples

PARTS = [np.array([3, 1]), np.array([0]), np.array([4, 2, 5])]


class Augmented(Dataset[tuple[torch.Tensor, int]]):
    """A data set that draws from every generator, and says which process it is in."""

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        drawn = [random.random(), float(np.random.random()), float(torch.rand(()))]
        return torch.tensor([*drawn, float(os.getpid())], dtype=torch.float64), index


def fetched(workers: int, epoch: int = 0, seed: int = 0) -> list[tuple[torch.Tensor, list[int]]]:
    samples = MapSamples(Augmented(), seed, workers)
    batches = [(inputs, targets.tolist()) for inputs, targets in samples.batches(PARTS, epoch)]
    samples.close()
    return batches


def drawn(batches: list[tuple[torch.Tensor, list[int]]]) -> torch.Tensor:
    return torch.cat([inputs[:, :3] for inputs, _ in batches])


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("workers", [0, 2])
def test_the_parts_come_in_their_order(workers: int) -> None:
    assert [targets for _, targets in fetched(workers)] == [[3, 1], [0], [4, 2, 5]]


@pytest.mark.usefixtures("processes")
def test_other_processes_fetch_the_very_same_samples() -> None:
    here, elsewhere = fetched(0), fetched(2)
    assert torch.equal(drawn(here), drawn(elsewhere))
    assert {float(row[3]) for inputs, _ in here for row in inputs} == {float(os.getpid())}
    assert float(os.getpid()) not in {float(row[3]) for inputs, _ in elsewhere for row in inputs}


@pytest.mark.usefixtures("processes")
def test_processes_stay_from_epoch_to_epoch() -> None:
    samples = MapSamples(Augmented(), 0, 1)
    pids = set()
    for epoch in (0, 1):
        pids |= {float(row[3]) for inputs, _ in samples.batches(PARTS, epoch) for row in inputs}
    assert len(pids) == 1
    samples.close()


def test_draws_depend_on_the_sample_the_epoch_and_the_seed_alone() -> None:
    assert torch.equal(drawn(fetched(0)), drawn(fetched(0)))
    assert not torch.equal(drawn(fetched(0)), drawn(fetched(0, epoch=1)))
    assert not torch.equal(drawn(fetched(0)), drawn(fetched(0, seed=1)))
    samples = MapSamples(Augmented(), 0)
    [(alone, _)] = samples.batches([np.array([1])], 0)
    assert torch.equal(alone[0, :3], drawn(fetched(0))[1])


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("workers", [0, 1])
def test_fetching_leaves_the_process_own_random_numbers_alone(workers: int) -> None:
    def next_draws() -> list[float]:
        return [random.random(), float(np.random.random()), float(torch.rand(()))]

    for generator in (random.seed, np.random.seed, torch.manual_seed):
        generator(5)
    expected = next_draws()
    for generator in (random.seed, np.random.seed, torch.manual_seed):
        generator(5)
    fetched(workers)
    assert next_draws() == expected
