"""Which samples make up which batch on which replica: one answer for every framework."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]


def epoch_order(count: int, seed: int, epoch: int) -> Indices:
    """The order in which epoch `epoch` (from 0) visits `count` samples: a permutation of them.

    It depends on its arguments alone, so a resumed run finds its place again without a saved state.
    """
    # RandomState's stream is frozen for ever; a Generator's may change with numpy's version.
    return np.random.RandomState([seed, epoch]).permutation(count).astype(np.int64)


def batches_per_epoch(count: int, batch_size: int) -> int:
    """Global batches that `count` samples make; the last one may be smaller."""
    return -(-count // batch_size)


def global_batch(order: Indices, batch: int, batch_size: int) -> Indices:
    """The samples of global batch number `batch` (from 0)."""
    return order[batch * batch_size : (batch + 1) * batch_size]


def replica_samples(samples: Indices, replica: int, replicas: int) -> Indices:
    """The part of a global batch that one replica computes: every `replicas`-th sample.

    The shares differ by one sample at most. Some are empty where there are fewer samples than
    replicas.
    """
    return samples[replica::replicas]
