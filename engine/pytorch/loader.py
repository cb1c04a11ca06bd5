"""Samples of a map-style Dataset, fetched by this process or ahead of time by others."""

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
"""Epoch and index of a sample."""


class MapSamples:
    """Samples of a map-style Dataset, collated as a DataLoader does."""

    def __init__(
        self, dataset: Any, seed: int, loader_workers: int = 0, *, pin_memory: bool = False
    ) -> None:
        self._dataset = _Seeded(dataset, seed)
        self._parts = _Parts()
        self._loader: DataLoader[Any] | None = None
        if loader_workers:
            self._loader = DataLoader(
                self._dataset,
                batch_sampler=self._parts,
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
                with _Undisturbed():
                    inputs, targets = default_collate([self._dataset[key] for key in part])
                yield inputs, targets
        else:
            self._parts.keys = keys
            for inputs, targets in _without_draws(self._loader):
                yield inputs, targets

    def close(self) -> None:
        """End the processes that fetch samples."""
        self._loader = None


class _Seeded(Dataset[Any]):
    """Draws the same numbers for a sample in an epoch, whichever process fetches it, and when.

    So augmentation depends neither on the number of ranks and loader workers nor on a resume.
    """

    def __init__(self, dataset: Any, seed: int) -> None:
        self._dataset = dataset
        self._seed = seed

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, key: Key) -> Any:
        epoch, index = key
        own = zlib.crc32(np.array([self._seed, epoch, index], np.int64).tobytes())
        random.seed(own)
        np.random.seed(own)
        torch.default_generator.manual_seed(own)
        return self._dataset[index]


class _Parts:
    """A batch sampler that hands out what was last put into it."""

    def __init__(self) -> None:
        self.keys: Iterator[list[Key]] = iter(())

    def __iter__(self) -> Iterator[list[Key]]:
        return self.keys


class _Undisturbed:
    """Whatever is drawn in this context, the process's own random numbers go on as before."""

    def __enter__(self) -> None:
        self._states = random.getstate(), np.random.get_state(), torch.get_rng_state()

    def __exit__(self, *_: object) -> None:
        python, numpy, pytorch = self._states
        random.setstate(python)
        np.random.set_state(numpy)
        torch.set_rng_state(pytorch)


def _without_draws(loader: DataLoader[Any]) -> Iterator[Any]:
    """The loader's batches; starting it draws a base seed, which nothing here depends on."""
    with _Undisturbed():
        return iter(loader)
