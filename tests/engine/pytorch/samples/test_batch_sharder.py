"""Which samples a replica gets in which step: all replicas together get each sample once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from engine.pytorch.samples.batch_sharder import BatchSharder, Place
from engine.pytorch.samples.data import TensorSamples
from engine.pytorch.samples.order import Shuffled
from engine.training.sample_order import Indices, epoch_order

COUNT, BATCH = 10, 4
CPU = torch.device("cpu")


class Noted(TensorSamples):
    """Rows whose input is their index; records which indices were requested."""

    def __init__(self) -> None:
        rows = torch.arange(COUNT)
        super().__init__(rows, rows)
        self.asked: list[list[int]] = []

    def batches(self, parts: Iterable[Indices], epoch: int) -> Iterator[tuple[Any, Any]]:
        def noted() -> Iterator[Indices]:
            for part in parts:
                self.asked.append(part.tolist())
                yield part

        return super().batches(noted(), epoch)


def order(epoch: int) -> Indices:
    return epoch_order(COUNT, 0, epoch)


def sharder(replica: int = 0, replicas: int = 1, accumulation: int = 1) -> BatchSharder:
    place = Place(replica, replicas, accumulation, CPU)
    return BatchSharder(Noted(), Shuffled(COUNT, BATCH, seed=0), place)


def rows(sharder: BatchSharder, epoch: int, batch: int) -> list[list[int]]:
    """The samples with a weight, of each local batch."""
    return [s.batch[0].tolist()[: s.samples] for s in sharder.local_batches(epoch, batch)]


@pytest.mark.parametrize(("replicas", "accumulation"), [(1, 1), (2, 1), (1, 3), (3, 2), (4, 4)])
def test_all_local_batches_together_are_the_global_batch(replicas: int, accumulation: int) -> None:
    sharders = [sharder(replica, replicas, accumulation) for replica in range(replicas)]
    for epoch in (0, 1):
        for batch in range(3):
            got = [row for each in sharders for part in rows(each, epoch, batch) for row in part]
            expected = order(epoch)[batch * BATCH : (batch + 1) * BATCH]
            assert sorted(got) == sorted(expected.tolist())


def test_weights_add_up_to_one_also_in_the_uneven_last_batch() -> None:
    sharders = [sharder(replica, 3, 2) for replica in range(3)]
    local_batches = [local for each in sharders for local in each.local_batches(0, 2)]
    assert len(local_batches) == 6
    assert sum(local.weight for local in local_batches) == pytest.approx(1)
    empty = [local for local in local_batches if local.samples == 0]
    assert [len(local.batch[0]) for local in empty] == [1, 1, 1, 1]
    assert {local.weight for local in empty} == {0.0}


def test_any_batch_can_be_the_first() -> None:
    whole = sharder()
    expected = [rows(whole, 1, batch) for batch in range(3)]
    begun_late = sharder()
    assert [rows(begun_late, 1, batch) for batch in (1, 2)] == expected[1:]
    assert rows(begun_late, 1, 0) == expected[0]


def test_batches_in_order_are_one_stream_through_the_data() -> None:
    one = sharder()
    for batch in range(3):
        rows(one, 0, batch)
    asked = one._samples.asked  # type: ignore[attr-defined]
    assert asked == [order(0)[k * BATCH : (k + 1) * BATCH].tolist() for k in range(3)]


def test_waiting_for_samples_is_timed() -> None:
    one = sharder()
    rows(one, 0, 0)
    assert one.waiting_seconds > 0


def test_an_empty_local_batch_has_one_sample_of_weight_0() -> None:
    last = sharder(replica=1, replicas=4)
    [local] = last.local_batches(0, 2)
    assert local.samples == 1
    idle = sharder(replica=3, replicas=4)
    [local] = idle.local_batches(0, 2)
    assert (local.samples, local.global_size, len(local.batch[0])) == (0, 2, 1)
    assert np.isin(local.batch[0].numpy(), order(0)[8:]).all()


def test_a_batch_is_divided_again_in_more_parts_and_so_are_those_after_it() -> None:
    one = sharder(replica=1, replicas=2)
    [whole] = rows(one, 0, 0)
    one.accumulate(2)
    parts = rows(one, 0, 0)
    assert len(parts) == 2
    assert sorted(row for part in parts for row in part) == sorted(whole)
    assert [rows(one, 0, batch) for batch in (1, 2)] == [
        rows(sharder(1, 2, 2), 0, batch) for batch in (1, 2)
    ]
