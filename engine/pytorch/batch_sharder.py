"""Divides global batches: which samples this rank computes in which step, from any step on."""

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
    """On the rank's device, samples first; `targets` too."""

    targets: Any
    samples: int
    """How many samples it has. With 0, `inputs` hold one sample, whose weight is 0."""

    global_size: int
    """How many samples the global batch has."""

    @property
    def weight(self) -> float:
        """The fraction of the global batch's samples: the weight of this loss in the mean."""
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
        self._expected = (-1, -1)
        self._stream: Iterator[LocalBatch] = iter(())
        self.batches = sample_order.batches_per_epoch(len(samples), batch_size)
        self.seconds = 0.0
        """Seconds that training has waited for samples; the reader resets it."""

    def local_batches(self, epoch: int, batch: int) -> Iterator[LocalBatch]:
        """Yield this replica's local batches of global batch `batch`: one per accumulation step.

        A replica without a sample gets one of weight 0, so that it calls the same collectives.
        """
        if (epoch, batch) != self._expected:
            self._stream = self._start(epoch, batch)
        self._expected = (epoch, batch + 1)
        for _ in range(self._accumulation):
            begin = time.perf_counter()
            local = next(self._stream)
            self.seconds += time.perf_counter() - begin
            yield local

    def close(self) -> None:
        """End the processes that fetch samples, if there are any."""
        self._stream = iter(())
        self._samples.close()

    def _start(self, epoch: int, first: int) -> Iterator[LocalBatch]:
        order = self._order(epoch)
        # Loader workers fetch ahead of training, so the plan is made twice.
        requests = (
            indices if len(indices) else global_batch[:1]
            for indices, global_batch in self._plan(order, first)
        )
        fetched = self._samples.batches(requests, epoch)
        for (indices, global_batch), batch in zip(self._plan(order, first), fetched, strict=True):
            inputs, targets = to_device(batch, self._device)
            yield LocalBatch(inputs, targets, len(indices), len(global_batch))

    def _plan(self, order: Indices, first: int) -> Iterator[tuple[Indices, Indices]]:
        """Yield the indices of each local batch from batch `first` on, and of its global batch."""
        parts = self._replicas * self._accumulation
        for batch in range(first, self.batches):
            global_batch = sample_order.global_batch(order, batch, self._batch_size)
            for step in range(self._accumulation):
                part = step * self._replicas + self._replica
                yield sample_order.replica_samples(global_batch, part, parts), global_batch
