"""Samples of a map-style Dataset, fetched by this process or ahead of time by loader workers."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, default_collate, get_worker_info

from engine.pytorch.samples.loader_workers import LoaderWatch, each_next, end_workers
from engine.pytorch.samples.names import Names, SamplesDiffer, difference, place_of, sample_name
from engine.pytorch.samples.nested import Batch
from engine.pytorch.samples.order import preserved_random_state, seed_generators, seed_of
from engine.training.sample_order import Indices

Key = tuple[int, Any]
"""The epoch and the index of a sample."""


def not_of_the_user(file: Path) -> bool:
    """Say of every file that it is not the user's code."""
    return False


@dataclass(frozen=True)
class Fetching:
    """How samples are fetched and collated: the arguments of a DataLoader, and names for errors."""

    workers: int = 0
    collate: Callable[[list[Any]], Any] = default_collate
    worker_init: Callable[[int], Any] | None = None
    more: dict[str, Any] = field(default_factory=dict)
    """Other arguments of the DataLoader that workers need, such as `prefetch_factor`."""

    what: str = "data"
    """`training data` or `validation data`."""

    owns: Callable[[Path], bool] = not_of_the_user
    """Whether a file is the user's code."""

    def loader(self, dataset: Any, watch: LoaderWatch, **options: Any) -> DataLoader[Any]:
        """Return a DataLoader with these workers, which `watch` follows."""
        begin = _Begin(watch, self.worker_init)
        return DataLoader(
            dataset, num_workers=self.workers, worker_init_fn=begin, **self.more, **options
        )


class _Begin:
    """What a loader worker does first; it is sent to those that are spawned."""

    def __init__(self, watch: LoaderWatch, init: Callable[[int], Any] | None) -> None:
        self._watch = watch
        self._init = init

    def __call__(self, worker: int) -> None:
        self._watch.begin(worker)
        info = get_worker_info()
        if info is not None and isinstance(info.dataset, Wrapped):
            # What the recipe's function expects; the class refuses an ordinary assignment.
            object.__setattr__(info, "dataset", info.dataset.dataset)
        if self._init is not None:
            self._init(worker)


class Wrapped:
    """A data set around the one of the recipe."""

    dataset: Any


class MapSamples:
    """Samples of a map-style Dataset, collated as a DataLoader does."""

    def __init__(
        self,
        dataset: Any,
        seed: int,
        loader_workers: int = 0,
        *,
        pin_memory: bool = False,
        fetching: Fetching | None = None,
    ) -> None:
        """`fetching` has its own number of workers; `loader_workers` counts without it."""
        fetching = fetching or Fetching(loader_workers)
        self.dataset = dataset
        self._owns = fetching.owns
        self._watch = LoaderWatch(
            fetching.workers, lambda index: sample_name(dataset, index), fetching.owns
        )
        self._batches = _Batches(dataset, seed, fetching, self._watch)
        self._sampler = _BatchSampler()
        self._loader: DataLoader[Any] | None = None
        if fetching.workers:
            self._loader = fetching.loader(
                self._batches,
                self._watch,
                batch_sampler=self._sampler,
                collate_fn=_as_it_is,
                persistent_workers=True,
                pin_memory=pin_memory,
            )

    def __len__(self) -> int:
        return len(self.dataset)

    def batches(self, requests: Iterable[Indices], epoch: int) -> Iterator[Batch]:
        """See `engine.pytorch.samples.data.Samples`."""
        try:
            yield from self._fetched(requests, epoch)
        except SamplesDiffer as error:  # its attributes do not leave a loader worker
            error.where = place_of(self.dataset, self._owns)
            raise

    def _fetched(self, requests: Iterable[Indices], epoch: int) -> Iterator[Batch]:
        keys = ([(epoch, index) for index in indices.tolist()] for indices in requests)
        if self._loader is None:
            for indices in keys:
                with preserved_random_state():
                    batch = self._batches.__getitems__(indices)
                yield batch
        else:
            self._sampler.keys = keys
            with preserved_random_state():  # the start draws a base seed, which is not used here
                batches = iter(self._loader)
            yield from each_next(self._watch, batches)

    def one(self, index: int) -> Any:
        """See `engine.pytorch.samples.data.Samples`."""
        with preserved_random_state():
            return self._batches.sample((0, index))

    def names(self, indices: Indices) -> Names:
        """See `engine.pytorch.samples.data.Samples`."""
        return Names(self.dataset, indices)

    def reading(self, seconds: float) -> list[int]:
        """See `engine.pytorch.samples.data.Samples`."""
        return self._watch.reading(seconds)

    def close(self) -> None:
        """End the loader workers."""
        end_workers(self._watch, getattr(self._loader, "_iterator", None))
        self._loader = None


class _Batches(Wrapped, Dataset[Any]):
    """The samples of a batch, collated where they are fetched: here, or in a loader worker.

    The random generators are seeded before each sample, from the run's seed, epoch and sample. So
    augmentation is the same with any number of ranks and loader workers, and after a resume. What
    a collate_fn draws depends on the samples of its batch.
    """

    def __init__(self, dataset: Any, seed: int, fetching: Fetching, watch: LoaderWatch) -> None:
        self.dataset = dataset
        self._seed = seed
        self._collate = fetching.collate
        self._what = fetching.what
        self._watch = watch

    def __getitems__(self, keys: Sequence[Key]) -> Batch:
        """Return the collated batch; the name is that by which a DataLoader asks for a batch."""
        indices = [index for _, index in keys]
        samples = [self.sample(key) for key in keys]
        if self._collate is default_collate:
            return self._collated(samples, indices)
        seed_generators(seed_of(self._seed, keys[0][0], *indices, len(indices)))
        try:
            return self._collate(samples)
        except Exception as error:
            error.add_note(f"In the collate_fn, for {self._named(indices)}.")
            raise

    def sample(self, key: Key) -> Any:
        """Return a sample, with the random numbers that belong to it."""
        epoch, index = key
        if isinstance(index, int):
            seed = zlib.crc32(np.array([self._seed, epoch, index], np.int64).tobytes())
        else:
            seed = seed_of(self._seed, epoch, index)
        random.seed(seed)
        np.random.seed(seed)
        torch.default_generator.manual_seed(seed)
        self._watch.reads(index)
        try:
            sample = self.dataset[index]
            self._watch.has_read()
            return sample
        except Exception as error:
            error.add_note(f"In {sample_name(self.dataset, index)} of the {self._what}.")
            raise

    def _collated(self, samples: list[Any], indices: list[Any]) -> Batch:
        try:
            return default_collate(samples)
        except Exception as error:
            if text := difference(samples, self.dataset, indices):
                raise SamplesDiffer(text) from error
            error.add_note(
                f"In a batch of the {self._what}: {self._named(indices)}. A DataLoader with a "
                "collate_fn can make a batch of samples of any kind."
            )
            raise

    def _named(self, indices: list[Any]) -> str:
        names = ", ".join(sample_name(self.dataset, index) for index in indices[:3])
        return names + (f" and {len(indices) - 3} more" if len(indices) > 3 else "")


class _BatchSampler:
    """Yields `keys`, which `MapSamples` sets before it starts the DataLoader."""

    def __init__(self) -> None:
        self.keys: Iterator[list[Key]] = iter(())

    def __iter__(self) -> Iterator[list[Key]]:
        return self.keys


def _as_it_is(batch: Batch) -> Batch:
    return batch
