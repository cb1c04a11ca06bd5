"""Samples of a map-style Dataset, fetched by this process or ahead of time by loader workers."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterable, Iterator
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

    def batches(self, parts: Iterable[Indices], epoch: int) -> Iterator[tuple[Any, Any]]:
        """See `engine.pytorch.data.Samples`."""
        keys = ([(epoch, int(index)) for index in part] for part in parts)
        if self._loader is None:
            for part in keys:
                with _PreservedRandomState():
                    inputs, targets = default_collate([self._dataset[key] for key in part])
                yield inputs, targets
        else:
            self._sampler.keys = keys
            for inputs, targets in _without_draws(self._loader):
                yield inputs, targets

    def close(self) -> None:
        """End the loader workers."""
        self._loader = None


class _Seeded(Dataset[Any]):
    """Seeds the random generators for every sample, from the seed, the epoch and the index.

    So augmentation depends neither on the number of ranks and loader workers nor on a resume.
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
    """A batch sampler that yields the keys that were set last."""

    def __init__(self) -> None:
        self.keys: Iterator[list[Key]] = iter(())

    def __iter__(self) -> Iterator[list[Key]]:
        return self.keys


class _PreservedRandomState:
    """A context after which the process' random generators have their state from before."""

    def __enter__(self) -> None:
        self._states = random.getstate(), np.random.get_state(), torch.get_rng_state()

    def __exit__(self, *_: object) -> None:
        python, numpy, pytorch = self._states
        random.setstate(python)
        np.random.set_state(numpy)
        torch.set_rng_state(pytorch)


def _without_draws(loader: DataLoader[Any]) -> Iterator[Any]:
    """Return the loader's batches; starting it draws a base seed, which is not used here."""
    with _PreservedRandomState():
        return iter(loader)
