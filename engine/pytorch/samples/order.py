"""Which samples form the global batches of an epoch: by the seed, or by a sampler of the recipe."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
import torch

from engine.training import sample_order
from engine.training.errors import TrainingFailed
from engine.training.sample_order import GlobalBatches, Indices


class UnusableOrder(TrainingFailed):
    """A sampler that no exact training can follow; the text says what to change."""


class Order(Protocol):
    """The global batches of each epoch; equal on all ranks, and after a resume."""

    batches: int
    """Global batches per epoch."""

    def global_batches(self, epoch: int) -> Sequence[Indices]:
        """Return the sample indices of each global batch of epoch `epoch`, from 0."""


class Shuffled:
    """A permutation of all samples, from seed and epoch."""

    def __init__(self, count: int, batch_size: int, seed: int, *, drop_last: bool = False) -> None:
        self._count = count
        self._batch_size = batch_size
        self._seed = seed
        self._drop_last = drop_last
        self.batches = sample_order.batches_per_epoch(count, batch_size, drop_last=drop_last)

    def global_batches(self, epoch: int) -> Sequence[Indices]:
        """See `Order`."""
        order = sample_order.epoch_order(self._count, self._seed, epoch)
        return GlobalBatches(order, self._batch_size, drop_last=self._drop_last)


class InOrder:
    """All samples, from the first to the last."""

    def __init__(self, count: int, batch_size: int, *, drop_last: bool = False) -> None:
        self._batches = GlobalBatches(np.arange(count), batch_size, drop_last=drop_last)
        self.batches = len(self._batches)

    def global_batches(self, epoch: int) -> Sequence[Indices]:
        """See `Order`."""
        return self._batches


class BySampler:
    """What a sampler, or a sampler of batches, of the recipe gives.

    Its random numbers are its generator's, or those of the process, which are seeded from seed and
    epoch. The epochs are always drawn one after the other from the first on, also after a resume,
    so a sampler with a random state of its own gives the same orders again.
    """

    def __init__(
        self,
        draw: Callable[[], Iterable[Any]],
        to_batches: Callable[[list[Any]], Sequence[Indices]],
        *,
        seed: int,
        with_epoch: Sequence[Any] = (),
        generator: torch.Generator | None = None,
        name: str = "sampler",
    ) -> None:
        """`to_batches` makes global batches of what `draw` gave in an epoch.

        `with_epoch`: objects whose `set_epoch` is called, if they have it. `generator` is that of
        the DataLoader, which draws one number from it at the begin of each epoch.
        """
        self._draw = draw
        self._to_batches = to_batches
        self._seed = seed
        self._with_epoch = [each for each in with_epoch if hasattr(each, "set_epoch")]
        self._generator = generator
        self._name = name
        self._drawn = 0
        self._newest: Sequence[Indices] = ()
        self.batches = 0
        self.batches = len(self.global_batches(0))

    def global_batches(self, epoch: int) -> Sequence[Indices]:
        """See `Order`. Raises UnusableOrder when an epoch has another number of batches."""
        while self._drawn <= epoch:
            self._newest = self._to_batches(self._draw_epoch(self._drawn))
            self._drawn += 1
        if epoch != self._drawn - 1:
            raise ValueError(f"epoch {epoch} is asked for after epoch {self._drawn - 1}")
        if self.batches and len(self._newest) != self.batches:
            raise UnusableOrder(
                f"The {self._name} of datasets() gave {len(self._newest)} batches in epoch "
                f"{epoch + 1} and {self.batches} in the first: each epoch must have as many."
            )
        return self._newest

    def _draw_epoch(self, epoch: int) -> list[Any]:
        with seeded(self._seed, epoch):
            for each in self._with_epoch:
                each.set_epoch(epoch)
            if self._generator is not None:
                torch.empty((), dtype=torch.int64).random_(generator=self._generator)
            return list(self._draw())


def as_indices(values: Sequence[Any]) -> Indices:
    """Return what a sampler gave as an array: of integers, or of other keys of samples."""
    try:
        found = np.asarray(values)
    except ValueError:  # keys of several lengths
        found = np.empty(0)
    if found.ndim == 1 and found.dtype.kind in "iu":
        return found.astype(np.int64)
    keys = np.empty(len(values), dtype=object)
    keys[:] = list(values)
    return keys


def seed_of(*parts: Any) -> int:
    """Return a seed of 32 bits that depends on `parts` alone."""
    if all(isinstance(part, int | np.integer) for part in parts):
        return zlib.crc32(np.array(parts, np.int64).tobytes())
    return zlib.crc32(repr(parts).encode())


def seed_generators(seed: int) -> None:
    """Seed the generators of the process that samples draw from: Python, NumPy, PyTorch's CPU."""
    random.seed(seed)
    np.random.seed(seed)
    torch.default_generator.manual_seed(seed)


@contextmanager
def seeded(*parts: Any) -> Iterator[None]:
    """Seed the generators from `parts` in the context; afterwards they are as they were."""
    with preserved_random_state():
        seed_generators(seed_of(*parts))
        yield


@contextmanager
def preserved_random_state() -> Iterator[None]:
    """Restore the state of the process' random generators at the end of the context."""
    before = random_state()
    try:
        yield
    finally:
        set_random_state(before)


RandomState = tuple[Any, Any, torch.Tensor]


def random_state() -> RandomState:
    """Return the state of the generators that samples draw from."""
    return random.getstate(), np.random.get_state(), torch.get_rng_state()


def set_random_state(state: RandomState) -> None:
    """Restore what `random_state` returned."""
    python, numpy, pytorch = state
    random.setstate(python)
    np.random.set_state(numpy)
    torch.set_rng_state(pytorch)
