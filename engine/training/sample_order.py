"""Decides which samples form each batch of each replica, for both frameworks.

All arrays are one-dimensional, int64, and hold indices of samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]


def epoch_order(count: int, seed: int, epoch: int) -> Indices:
    """Return the order in which epoch `epoch` (from 0) visits `count` samples: a permutation.

    It depends on the arguments only, so a resumed run needs no saved state of a sampler.
    """
    # NumPy promises never to change RandomState; a Generator may change with the version.
    return np.random.RandomState([seed, epoch]).permutation(count).astype(np.int64)


def batches_per_epoch(count: int, batch_size: int, *, drop_last: bool = False) -> int:
    """Return the number of global batches for `count` samples; the last one may be smaller.

    With `drop_last` there is no smaller one.
    """
    return count // batch_size if drop_last else -(-count // batch_size)


def global_batch(order: Indices, batch: int, batch_size: int) -> Indices:
    """Return the samples of global batch number `batch` (from 0): a view of `order`."""
    return order[batch * batch_size : (batch + 1) * batch_size]


def replica_samples(samples: Indices, replica: int, replicas: int) -> Indices:
    """Return the samples of a global batch for one replica: every `replicas`-th one, as a view.

    The numbers of samples differ by at most one between replicas. If there are fewer samples than
    replicas, some replicas get none.
    """
    return samples[replica::replicas]


class GlobalBatches(Sequence[Indices]):
    """The global batches of one epoch: views of the order of its samples."""

    def __init__(self, order: Indices, batch_size: int, *, drop_last: bool = False) -> None:
        self._order = order
        self._batch_size = batch_size
        self._count = batches_per_epoch(len(order), batch_size, drop_last=drop_last)

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, batch: int) -> Indices: ...
    @overload
    def __getitem__(self, batch: slice) -> list[Indices]: ...
    def __getitem__(self, batch: int | slice) -> Indices | list[Indices]:
        if isinstance(batch, slice):
            return [self[number] for number in range(*batch.indices(self._count))]
        if not 0 <= batch < self._count:
            raise IndexError(batch)
        return global_batch(self._order, batch, self._batch_size)
