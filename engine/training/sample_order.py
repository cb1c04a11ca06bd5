"""Decides which samples form each batch of each replica, for both frameworks.

All arrays are one-dimensional, int64, and hold indices of samples.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]


def epoch_order(count: int, seed: int, epoch: int) -> Indices:
    """Return the order in which epoch `epoch` (from 0) visits `count` samples: a permutation.

    It depends on the arguments only, so a resumed run needs no saved state of a sampler.
    """
    # NumPy promises never to change RandomState; a Generator may change with the version.
    return np.random.RandomState([seed, epoch]).permutation(count).astype(np.int64)


def batches_per_epoch(count: int, batch_size: int) -> int:
    """Return the number of global batches for `count` samples; the last one may be smaller."""
    return -(-count // batch_size)


def global_batch(order: Indices, batch: int, batch_size: int) -> Indices:
    """Return the samples of global batch number `batch` (from 0): a view of `order`."""
    return order[batch * batch_size : (batch + 1) * batch_size]


def replica_samples(samples: Indices, replica: int, replicas: int) -> Indices:
    """Return the samples of a global batch for one replica: every `replicas`-th one, as a view.

    The numbers of samples differ by at most one between replicas. If there are fewer samples than
    replicas, some replicas get none.
    """
    return samples[replica::replicas]
