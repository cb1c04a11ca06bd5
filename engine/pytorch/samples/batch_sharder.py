"""Divides global batches into the local batches of this rank, from any step on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import starmap, tee
from typing import Any, NamedTuple, Protocol

import torch

from engine.pytorch.samples.data import Samples
from engine.pytorch.samples.names import Names
from engine.pytorch.samples.nested import Batch, to_device
from engine.pytorch.samples.order import Order
from engine.training import sample_order
from engine.training.sample_order import Indices


class LocalBatch(NamedTuple):
    """The part of a global batch that one replica computes in one accumulation step."""

    batch: Batch
    """On the rank's device, in the nesting of the recipe's data; a pair for `loss(outputs,
    targets)`."""

    samples: int
    """The number of samples. If it is 0, `batch` holds one sample with weight 0."""

    global_size: int
    """The number of samples of the global batch."""

    amount: float
    """What the loss is a mean of: the result of the recipe's `weight(batch)`, else `samples`."""

    names: Names | None = None
    """The names of the samples; None: they have none."""

    @property
    def inputs(self) -> Any:
        """The inputs, samples in the first dimension."""
        return self.batch[0]

    @property
    def targets(self) -> Any:
        """The targets, samples in the first dimension; None: the data have none."""
        return self.batch[1]

    @property
    def weight(self) -> float:
        """Its fraction of the global batch, which is the weight of its loss in the mean."""
        return self.samples / self.global_size

    def name(self, row: int) -> str:
        """Return the name of a sample by its row: `sample 17 (/data/17.png)`; empty: unknown."""
        return self.names.of(row) if self.names else ""


class Place(NamedTuple):
    """Which local batches a sharder gives, and in which form."""

    replica: int
    replicas: int
    accumulation: int
    device: torch.device
    as_pair: Callable[[Batch], Any] | None = None
    """Makes inputs and targets of a batch; None: the recipe takes the whole batch."""

    weigh: Callable[[Batch], Any] | None = None
    """The recipe's `weight(batch)`."""

    @property
    def parts(self) -> int:
        """The number of local batches of a global batch."""
        return self.replicas * self.accumulation

    def own_parts(self) -> list[int]:
        """Return the numbers of this replica's local batches, one per accumulation step."""
        return [step * self.replicas + self.replica for step in range(self.accumulation)]

    def local_batch(
        self, batch: Batch, samples: int, global_size: int, names: Names | None = None
    ) -> LocalBatch:
        """Return `batch` on the device; its weight is computed before it is copied there."""
        amount = float(samples)
        if self.weigh is not None:
            amount = float(self.weigh(batch)) if samples else 0.0
        if self.as_pair is not None:
            batch = self.as_pair(batch)
        return LocalBatch(to_device(batch, self.device), samples, global_size, amount, names)


class Sharder(Protocol):
    """One rank's local batches of a data set, in order, on its device."""

    batches: int
    """Global batches per epoch; 0: unknown until the data end."""

    waiting_seconds: float
    """Seconds in which training waited for samples, and for the host's part of their copy to the
    device; the trainer resets them."""

    def local_batches(self, epoch: int, batch: int) -> Iterator[LocalBatch]:
        """Yield this replica's local batches of global batch `batch`: one per accumulation step.

        A replica without samples gets a batch of weight 0, so that it calls the same collectives.
        Yields nothing, on all ranks, if the data of the epoch have ended before that batch.
        """

    def accumulate(self, steps: int) -> None:
        """From now on, divide each global batch into `steps` parts per replica.

        The last batch that was asked for may be asked for again; all ranks must call this.
        """

    def state(self) -> dict[str, Any]:
        """Return where the data are, for a checkpoint; {}: position and seed say it."""

    def load_state(self, state: dict[str, Any]) -> None:
        """Use what `state` returned, if the training goes on there."""

    def close(self) -> None:
        """End the loader workers."""


class BatchSharder:
    """One rank's local batches of samples with random access."""

    def __init__(self, samples: Samples, order: Order, place: Place) -> None:
        self._samples = samples
        self._order = order
        self._place = place
        self._next_position = (-1, -1)
        self._local_batches: Iterator[LocalBatch] = iter(())
        self.batches = order.batches
        self.waiting_seconds = 0.0

    def local_batches(self, epoch: int, batch: int) -> Iterator[LocalBatch]:
        """See `Sharder`."""
        if (epoch, batch) != self._next_position:
            self._local_batches = self._local_batches_from(epoch, batch)
        self._next_position = (epoch, batch + 1)
        for _ in range(self._place.accumulation):
            begin = time.perf_counter()
            local = next(self._local_batches)
            self.waiting_seconds += time.perf_counter() - begin
            yield local

    def accumulate(self, steps: int) -> None:
        """See `Sharder`."""
        self._place = self._place._replace(accumulation=steps)
        self._local_batches, self._next_position = iter(()), (-1, -1)

    def state(self) -> dict[str, Any]:
        """See `Sharder`."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """See `Sharder`."""
        return

    def reading(self, seconds: float) -> list[int]:
        """Return the samples that are read for so many seconds. Any thread may call this."""
        return self._samples.reading(seconds)

    def close(self) -> None:
        """See `Sharder`."""
        self._local_batches = iter(())
        self._samples.close()

    def _local_batches_from(self, epoch: int, first: int) -> Iterator[LocalBatch]:
        parts = self._indices_from(self._order.global_batches(epoch), first)
        parts, asked = tee(parts)  # samples are asked for ahead of training
        fetched = self._samples.batches(starmap(_asked, asked), epoch)
        for indices, global_batch in parts:
            names = self._samples.names(_asked(indices, global_batch))
            # Nothing here keeps a batch: it may be on a GPU, which a pause frees.
            yield self._place.local_batch(next(fetched), len(indices), len(global_batch), names)

    def _indices_from(self, global_batches: Any, first: int) -> Iterator[tuple[Indices, Indices]]:
        """Yield the sample indices of each local batch and of its global batch, from `first` on."""
        parts = self._place.own_parts()
        for batch in range(first, self.batches):
            global_batch = global_batches[batch]
            for part in parts:
                yield (
                    sample_order.replica_samples(global_batch, part, self._place.parts),
                    global_batch,
                )


def _asked(indices: Indices, global_batch: Indices) -> Indices:
    """Return the samples that are read for a local batch: one, of weight 0, if it has none."""
    return indices if len(indices) else global_batch[:1]
