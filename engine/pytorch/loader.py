"""Samples of a map-style Dataset, fetched by this process or ahead of time by loader workers."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, default_collate

from engine.training.sample_order import Indices
from engine.worker import loader_process

Key = tuple[int, int]
"""The epoch and the index of a sample."""


class MapSamples:
    """Samples of a map-style Dataset, collated as a DataLoader does."""

    def __init__(
        self, dataset: Any, seed: int, loader_workers: int = 0, *, pin_memory: bool = False
    ) -> None:
        self._dataset = _Seeded(dataset, seed)
        self._sampler = _BatchSampler()
        self._loader: DataLoader[Any] | None = None
        if loader_workers:
            self._loader = DataLoader(
                self._dataset,
                batch_sampler=self._sampler,
                num_workers=loader_workers,
                persistent_workers=True,
                pin_memory=pin_memory,
                worker_init_fn=loader_process.begin,
            )

    def __len__(self) -> int:
        return len(self._dataset)

    def batches(self, requests: Iterable[Indices], epoch: int) -> Iterator[tuple[Any, Any]]:
        """See `engine.pytorch.data.Samples`."""
        keys = ([(epoch, int(index)) for index in indices] for indices in requests)
        if self._loader is None:
            for indices in keys:
                with _preserved_random_state():
                    inputs, targets = default_collate([self._dataset[key] for key in indices])
                yield inputs, targets
        else:
            self._sampler.keys = keys
            with _preserved_random_state():  # the start draws a base seed, which is not used here
                batches = iter(self._loader)
            for inputs, targets in batches:
                yield inputs, targets

    def close(self) -> None:
        """End the loader workers."""
        self._loader = None


class _Seeded(Dataset[Any]):
    """Seeds the random generators before each sample, from the run's seed, epoch and sample index.

    So augmentation is the same with any number of ranks and loader workers, and after a resume.
    """

    def __init__(self, dataset: Any, seed: int) -> None:
        self._dataset = dataset
        self._seed = seed

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, key: Key) -> Any:
        epoch, index = key
        seed = zlib.crc32(np.array([self._seed, epoch, index], np.int64).tobytes())
        random.seed(seed)
        np.random.seed(seed)
        torch.default_generator.manual_seed(seed)
        return self._dataset[index]


class _BatchSampler:
    """Yields `keys`, which `MapSamples` sets before it starts the DataLoader."""

    def __init__(self) -> None:
        self.keys: Iterator[list[Key]] = iter(())

    def __iter__(self) -> Iterator[list[Key]]:
        return self.keys


@contextmanager
def _preserved_random_state() -> Iterator[None]:
    """Restore the state of the process' random generators at the end of the context."""
    python, numpy, pytorch = random.getstate(), np.random.get_state(), torch.get_rng_state()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        torch.set_rng_state(pytorch)
