"""Which samples this rank computes when: its shares of the global batches, from any place on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

from engine.pytorch.data import Samples, to_device
from engine.training import sample_order
from engine.training.sample_order import Indices


class LocalBatch(NamedTuple):
    """The part of a global batch that one replica computes at once."""

    inputs: Any
    targets: Any
    samples: int
    """0 for a share without samples of its own: it holds one that must count for nothing."""

    whole: int
    """Samples of the global batch."""

    @property
    def weight(self) -> float:
        """Its part in the mean over the global batch."""
        return self.samples / self.whole


class BatchSharder:
    """One rank's shares of a data set, in order, on its device."""

    def __init__(
        self,
        samples: Samples,
        order: Callable[[int], Indices],
        batch_size: int,
        *,
        replica: int,
        replicas: int,
        accumulation: int,
        device: torch.device,
    ) -> None:
        """`order` gives the order of the samples in an epoch."""
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
        """Time that the training has waited for samples."""

    def shares(self, epoch: int, batch: int) -> Iterator[LocalBatch]:
        """This replica's shares of global batch `batch` of `epoch`: one per accumulation step.

        A replica without a sample still takes part in what the ranks do together.
        """
        if (epoch, batch) != self._expected:
            self._stream = self._start(epoch, batch)
        self._expected = (epoch, batch + 1)
        for _ in range(self._accumulation):
            begin = time.perf_counter()
            share = next(self._stream)
            self.seconds += time.perf_counter() - begin
            yield share

    def close(self) -> None:
        """End the processes that fetch samples, if there are any."""
        self._stream = iter(())
        self._samples.close()

    def _start(self, epoch: int, first: int) -> Iterator[LocalBatch]:
        order = self._order(epoch)
        # Fetching may run ahead of training, so each walks through the epoch on its own.
        indices = (mine if len(mine) else whole[:1] for mine, whole in self._plan(order, first))
        fetched = self._samples.batches(indices, epoch)
        for (mine, whole), batch in zip(self._plan(order, first), fetched, strict=True):
            inputs, targets = to_device(batch, self._device)
            yield LocalBatch(inputs, targets, len(mine), len(whole))

    def _plan(self, order: Indices, first: int) -> Iterator[tuple[Indices, Indices]]:
        """This replica's part of each global batch from `first` on, and the batch."""
        parts = self._replicas * self._accumulation
        for batch in range(first, self.batches):
            whole = sample_order.global_batch(order, batch, self._batch_size)
            for step in range(self._accumulation):
                part = step * self._replicas + self._replica
                yield sample_order.replica_samples(whole, part, parts), whole
