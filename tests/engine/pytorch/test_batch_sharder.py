"""Which samples a replica gets when: together all replicas get each sample of a batch once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from engine.pytorch.batch_sharder import BatchSharder
from engine.pytorch.data import TensorSamples
from engine.training.sample_order import Indices, epoch_order

COUNT, BATCH = 10, 4
CPU = torch.device("cpu")


class Noted(TensorSamples):
    """Rows whose input is their index; knows which indices were asked for."""

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


def feed(replica: int = 0, replicas: int = 1, accumulation: int = 1) -> BatchSharder:
    return BatchSharder(
        Noted(),
        order,
        BATCH,
        replica=replica,
        replicas=replicas,
        accumulation=accumulation,
        device=CPU,
    )


def rows(feed: BatchSharder, epoch: int, batch: int) -> list[list[int]]:
    """The samples that count, share by share."""
    return [s.inputs.tolist()[: s.samples] for s in feed.local_batches(epoch, batch)]


@pytest.mark.parametrize(("replicas", "accumulation"), [(1, 1), (2, 1), (1, 3), (3, 2), (4, 4)])
def test_all_shares_together_are_the_global_batch(replicas: int, accumulation: int) -> None:
    feeds = [feed(replica, replicas, accumulation) for replica in range(replicas)]
    for epoch in (0, 1):
        for batch in range(3):
            got = [row for each in feeds for part in rows(each, epoch, batch) for row in part]
            expected = order(epoch)[batch * BATCH : (batch + 1) * BATCH]
            assert sorted(got) == sorted(expected.tolist())


def test_weights_add_up_to_one_also_in_the_uneven_last_batch() -> None:
    feeds = [feed(replica, 3, 2) for replica in range(3)]
    shares = [share for each in feeds for share in each.local_batches(0, 2)]
    assert len(shares) == 6
    assert sum(share.weight for share in shares) == pytest.approx(1)
    empty = [share for share in shares if share.samples == 0]
    assert [len(share.inputs) for share in empty] == [1, 1, 1, 1]
    assert {share.weight for share in empty} == {0.0}


def test_any_batch_can_be_the_first() -> None:
    whole = feed()
    expected = [rows(whole, 1, batch) for batch in range(3)]
    begun_late = feed()
    assert [rows(begun_late, 1, batch) for batch in (1, 2)] == expected[1:]
    assert rows(begun_late, 1, 0) == expected[0]


def test_batches_in_order_are_one_stream_through_the_data() -> None:
    one = feed()
    for batch in range(3):
        rows(one, 0, batch)
    asked = one._samples.asked  # type: ignore[attr-defined]
    assert asked == [order(0)[k * BATCH : (k + 1) * BATCH].tolist() for k in range(3)]


def test_waiting_for_samples_is_timed() -> None:
    one = feed()
    rows(one, 0, 0)
    assert one.seconds > 0


def test_empty_parts_are_asked_for_as_one_sample() -> None:
    last = feed(replica=1, replicas=4)
    [share] = last.local_batches(0, 2)
    assert share.samples == 1
    nobody = feed(replica=3, replicas=4)
    [share] = nobody.local_batches(0, 2)
    assert (share.samples, share.global_size, len(share.inputs)) == (0, 2, 1)
    assert np.isin(share.inputs.numpy(), order(0)[8:]).all()
