"""Divides global batches into the local batches of this rank, from any step on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

from engine.pytorch.data import Samples, to_device
from engine.training import sample_order
from engine.training.sample_order import Indices


class LocalBatch(NamedTuple):
    """The part of a global batch that one replica computes in one accumulation step."""

    inputs: Any
    """Like `targets`: on the rank's device, with the samples in the first dimension."""

    targets: Any
    samples: int
    """The number of samples. If it is 0, `inputs` hold one sample with weight 0."""

    global_size: int
    """The number of samples of the global batch."""

    @property
    def weight(self) -> float:
        """Its fraction of the global batch, which is the weight of its loss in the mean."""
        return self.samples / self.global_size


class BatchSharder:
    """One rank's local batches of a data set, in order, on its device."""

    def __init__(
        self,
        samples: Samples,
        order: Callable[[int], Indices],
        *,
        batch_size: int,
        replica: int,
        replicas: int,
        accumulation: int,
        device: torch.device,
    ) -> None:
        """`order(epoch)` returns the order of the samples in an epoch."""
        self._samples = samples
        self._order = order
        self._batch_size = batch_size
        self._replica = replica
        self._replicas = replicas
        self._accumulation = accumulation
        self._device = device
        self._next_position = (-1, -1)
        self._local_batches: Iterator[LocalBatch] = iter(())
        self.batches = sample_order.batches_per_epoch(len(samples), batch_size)
        self.waiting_seconds = 0.0
        """Seconds in which training waited for samples; the trainer resets them."""

    def local_batches(self, epoch: int, batch: int) -> Iterator[LocalBatch]:
        """Yield this replica's local batches of global batch `batch`: one per accumulation step.

        A replica without samples gets a batch of weight 0, so that it calls the same collectives.
        """
        if (epoch, batch) != self._next_position:
            self._local_batches = self._local_batches_from(epoch, batch)
        self._next_position = (epoch, batch + 1)
        for _ in range(self._accumulation):
            begin = time.perf_counter()
            local = next(self._local_batches)
            self.waiting_seconds += time.perf_counter() - begin
            yield local

    def close(self) -> None:
        """End the loader workers."""
        self._local_batches = iter(())
        self._samples.close()

    def _local_batches_from(self, epoch: int, first: int) -> Iterator[LocalBatch]:
        order = self._order(epoch)
        # Loader workers read the requests ahead of training, so each loop has its own iterator.
        requests = (
            indices if len(indices) else global_batch[:1]
            for indices, global_batch in self._indices_from(order, first)
        )
        fetched = self._samples.batches(requests, epoch)
        for (indices, global_batch), batch in zip(
            self._indices_from(order, first), fetched, strict=True
        ):
            inputs, targets = to_device(batch, self._device)
            yield LocalBatch(inputs, targets, len(indices), len(global_batch))

    def _indices_from(self, order: Indices, first: int) -> Iterator[tuple[Indices, Indices]]:
        """Yield the sample indices of each local batch and of its global batch, from `first` on."""
        parts = self._replicas * self._accumulation
        for batch in range(first, self.batches):
            global_batch = sample_order.global_batch(order, batch, self._batch_size)
            for step in range(self._accumulation):
                part = step * self._replicas + self._replica
                yield sample_order.replica_samples(global_batch, part, parts), global_batch
