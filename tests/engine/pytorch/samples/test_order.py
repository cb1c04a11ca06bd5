"""The global batches of an epoch, of samplers too: the same ones after a resume."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
import torch
from torch.utils.data import RandomSampler, Sampler, WeightedRandomSampler

from engine.pytorch.samples.order import (
    BySampler,
    InOrder,
    Order,
    Shuffled,
    UnusableOrder,
    as_indices,
    preserved_random_state,
    seeded,
)
from engine.training.sample_order import GlobalBatches, Indices, epoch_order
from tests.support.sentences import sentence

COUNT, BATCH = 10, 4


class WithOwnState(Sampler[int]):
    """A sampler that nothing outside can seed."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(3)
        self.epochs: list[int] = []

    def set_epoch(self, epoch: int) -> None:
        self.epochs.append(epoch)

    def __iter__(self) -> Iterator[int]:
        return iter(self.random.permutation(COUNT).tolist())


class Growing(Sampler[int]):
    """A sampler with more indices in each epoch."""

    def __init__(self) -> None:
        self.count = COUNT

    def __iter__(self) -> Iterator[int]:
        self.count += BATCH
        return iter(range(self.count))


def batches(values: list[int]) -> Sequence[Indices]:
    return GlobalBatches(as_indices(values), BATCH)


def listed(order: Order, epoch: int) -> list[list[int]]:
    return [batch.tolist() for batch in order.global_batches(epoch)]


def test_arrays_are_shuffled_by_seed_and_epoch() -> None:
    order = Shuffled(COUNT, BATCH, seed=1)
    assert order.batches == 3
    assert np.concatenate(list(order.global_batches(2))).tolist() == (
        epoch_order(COUNT, 1, 2).tolist()
    )


def test_the_last_smaller_batch_may_be_dropped() -> None:
    assert Shuffled(COUNT, BATCH, 0, drop_last=True).batches == 2
    assert listed(InOrder(COUNT, BATCH, drop_last=True), 0) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert InOrder(3, BATCH, drop_last=True).batches == 0


@pytest.mark.parametrize("seed", [0, 1])
def test_a_sampler_draws_from_seed_and_epoch(seed: int) -> None:
    weights = [1.0] * COUNT

    def order() -> BySampler:
        sampler = WeightedRandomSampler(weights, COUNT)
        return BySampler(sampler.__iter__, batches, seed=seed)

    ours, again = order(), order()
    random.seed(99)
    torch.manual_seed(99)
    epochs = [listed(ours, epoch) for epoch in range(3)]
    assert listed(again, 2) == epochs[2], "epochs that were skipped are drawn too"
    assert epochs[0] != epochs[1]


def test_a_state_of_its_own_is_replayed() -> None:
    ours, resumed = WithOwnState(), WithOwnState()
    order = BySampler(ours.__iter__, batches, seed=0, with_epoch=[ours])
    expected = [listed(order, epoch) for epoch in range(4)]
    again = BySampler(resumed.__iter__, batches, seed=0, with_epoch=[resumed])
    assert listed(again, 3) == expected[3]
    assert resumed.epochs == [0, 1, 2, 3]


def test_the_generator_of_a_loader_gives_the_order_of_the_loader_itself() -> None:
    def loader() -> torch.utils.data.DataLoader[int]:
        data = list(range(COUNT))
        generator = torch.Generator().manual_seed(5)
        return torch.utils.data.DataLoader(
            data,  # type: ignore[arg-type]
            batch_size=BATCH,
            shuffle=True,
            generator=generator,
        )

    alone, ours = loader(), loader()
    order = BySampler(ours.sampler.__iter__, batches, seed=0, generator=ours.generator)
    for epoch in range(3):
        assert listed(order, epoch) == [batch.tolist() for batch in alone]


def test_each_epoch_must_have_as_many_batches() -> None:
    sampler = Growing()
    order = BySampler(sampler.__iter__, batches, seed=0)
    with pytest.raises(UnusableOrder, match=sentence("gave-batches-in-epoch").pattern):
        order.global_batches(1)


def test_keys_of_any_kind_may_be_sampled() -> None:
    keys = as_indices([("a", 1), ("b", 2)])
    assert keys.tolist() == [("a", 1), ("b", 2)]
    assert as_indices(["x", "y"]).tolist() == ["x", "y"]
    assert as_indices([1, 2]).dtype == np.int64


def test_random_numbers_are_as_they_were_afterwards() -> None:
    random.seed(5)
    expected = random.random()
    random.seed(5)
    with preserved_random_state():
        random.random()
    with seeded(1, 2):
        first = random.random()
    with seeded(1, 2):
        assert random.random() == first
    assert random.random() == expected


def test_a_plain_random_sampler_needs_no_generator() -> None:
    sampler = RandomSampler(range(COUNT))  # type: ignore[arg-type]
    order = BySampler(sampler.__iter__, batches, seed=0)
    assert sorted(np.concatenate(list(order.global_batches(0))).tolist()) == list(range(COUNT))
