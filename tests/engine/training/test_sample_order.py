"""Which samples make up which batch on which replica."""

from __future__ import annotations

import numpy as np
import pytest

from engine.training.sample_order import (
    batches_per_epoch,
    epoch_order,
    global_batch,
    replica_samples,
)


def test_an_epoch_visits_every_sample_once() -> None:
    assert sorted(epoch_order(97, seed=0, epoch=0)) == list(range(97))


def test_the_order_depends_on_its_arguments_alone() -> None:
    np.random.seed(1)
    first = epoch_order(97, seed=3, epoch=2)
    np.random.seed(2)
    np.testing.assert_array_equal(first, epoch_order(97, seed=3, epoch=2))


def test_the_order_is_the_same_in_every_version() -> None:
    """A run that is resumed after an update must find its place again."""
    assert epoch_order(8, seed=0, epoch=0).tolist() == [3, 7, 4, 0, 2, 6, 5, 1]


def test_seeds_and_epochs_have_orders_of_their_own() -> None:
    orders = {
        tuple(epoch_order(97, seed, epoch)) for seed, epoch in [(0, 0), (0, 1), (1, 0), (1, 1)]
    }
    assert len(orders) == 4


@pytest.mark.parametrize(
    ("count", "batch_size", "batches"), [(96, 32, 3), (97, 32, 4), (1, 32, 1), (32, 1, 32)]
)
def test_a_smaller_last_batch_counts(count: int, batch_size: int, batches: int) -> None:
    assert batches_per_epoch(count, batch_size) == batches


@pytest.mark.parametrize("replicas", [1, 2, 3, 5])
@pytest.mark.parametrize("batch_size", [1, 7, 32, 97, 200])
def test_batches_and_their_shares_are_a_partition_of_the_samples(
    batch_size: int, replicas: int
) -> None:
    order = epoch_order(97, seed=0, epoch=0)
    batches = [
        global_batch(order, number, batch_size)
        for number in range(batches_per_epoch(len(order), batch_size))
    ]
    np.testing.assert_array_equal(np.concatenate(batches), order)
    assert all(len(batch) == batch_size for batch in batches[:-1])
    for batch in batches:
        shares = [replica_samples(batch, replica, replicas) for replica in range(replicas)]
        assert sorted(np.concatenate(shares)) == sorted(batch)
        sizes = [len(part) for part in shares]
        assert max(sizes) - min(sizes) <= 1


def test_a_replica_computes_every_nth_sample() -> None:
    samples = np.array([10, 11, 12, 13, 14])
    assert replica_samples(samples, 0, 2).tolist() == [10, 12, 14]
    assert replica_samples(samples, 1, 2).tolist() == [11, 13]
    assert replica_samples(samples[:1], 1, 2).tolist() == []
