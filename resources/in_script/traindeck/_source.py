"""Where batches come from, and how a pass over them can begin at any batch."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

from traindeck._errors import TraindeckError
from traindeck._state.random_state import RandomState, Stream, drawing_from


class Part(NamedTuple):
    """The samples of a batch that this rank computes, of all that the ranks compute together."""

    own: int
    whole: int

    def weight(self, world: int) -> float:
        """Return what the mean over the part counts in the mean over the ranks."""
        return self.own * world / self.whole if self.whole else 1.0


class Source:
    """What a script iterates over. It can be iterated again, one pass after another."""

    fingerprint: list[Any]
    """Plain values that are the same for the same loader in a resumed script."""

    is_divided = False
    """Whether the ranks share each of its batches, so that its order must be that of rank 0."""

    count = 0
    """The number of batches in a pass; 0: unknown."""

    passes_before = 0
    """How many passes over it were begun in this run before the present one."""

    generators: list[Any] = []
    """The random generators that belong to the loader alone."""

    def generator_states(self) -> list[Any]:
        """Return the states of `generators`."""
        return [generator.get_state() for generator in self.generators]

    def set_generator_states(self, states: list[Any]) -> None:
        """Make `generators` continue from `states`."""
        for generator, state in zip(self.generators, states):
            generator.set_state(state)

    def begin(self, first: int, seed: int) -> None:
        """Begin a pass at batch `first`; all that it draws of the process is drawn now."""
        raise NotImplementedError

    def batches(self) -> Iterator[Any]:
        """Return the batches of the pass that was begun."""
        raise NotImplementedError

    def part(self, batch: Any) -> Part:
        """Return which part of the whole batch the oldest batch is that was not asked for."""
        raise NotImplementedError

    def divide(self, batch: Any) -> Any:
        """Return this rank's part of a batch that `batches` gave."""
        return batch

    def own_state(self) -> Any:
        """Return the place of the loader, if it knows it itself; None: it does not."""
        return None

    def set_own_state(self, state: Any) -> None:
        """Make the next pass begin at the place of `own_state`."""


class IterableSource(Source):
    """Any iterable: batches are skipped, or it continues by its own `load_state_dict`."""

    def __init__(self, iterable: Any, rank: int, world: int, split: bool | None) -> None:
        if world > 1 and split is None:
            raise TraindeckError(
                f"batches() cannot know how {world} ranks share a {type(iterable).__name__}. Say "
                "batches(loader, split=True) if every rank reads all batches and computes its part "
                "of each one, or split=False if every rank reads batches of its own."
            )
        self._iterable = iterable
        self._rank = rank
        self._world = world if split else 1
        self.is_divided = self._world > 1
        self._whole = 0
        self.keeps_state = all(
            callable(getattr(iterable, name, None)) for name in ("state_dict", "load_state_dict")
        )
        self._draws_here = not getattr(iterable, "num_workers", 0) and not isinstance(
            iterable, (list, tuple, range)
        )
        self._iterator: Iterator[Any] = iter(())
        self.fingerprint = [type(iterable).__qualname__]
        self.count = length_of(iterable)
        self.generators = generators_of(iterable)

    def begin(self, first: int, seed: int) -> None:
        self._iterator = iter(self._iterable)
        if self._draws_here:
            self._iterator = _apart(self._iterator, Stream(RandomState.now()))
        if first and not self.keeps_state:
            skipped = sum(1 for _ in itertools.islice(self._iterator, first))
            if skipped < first:
                raise TraindeckError(
                    f"The loader ends after {skipped} batches, but the checkpoint was saved after "
                    f"{first}: the data have changed, or a generator was given that cannot be "
                    "iterated again."
                )

    def batches(self) -> Iterator[Any]:
        return self._iterator

    def divide(self, batch: Any) -> Any:
        self._whole = samples(batch)
        if self._world == 1:
            return batch
        own = len(range(self._rank, self._whole, self._world))
        return sliced(batch, slice(self._rank, None, self._world) if own else slice(0, 1))

    def part(self, batch: Any) -> Part:
        first = self._rank if self._world > 1 else 0
        return Part(len(range(first, self._whole, self._world)), self._whole)

    def own_state(self) -> Any:
        if not self.keeps_state:
            return None
        with drawing_from(RandomState.now()):  # some begin their next pass to know their state
            return self._iterable.state_dict()

    def set_own_state(self, state: Any) -> None:
        self._iterable.load_state_dict(state)


def _apart(iterator: Iterator[Any], stream: Stream) -> Iterator[Any]:
    """Yield what `iterator` yields; it draws from `stream` alone, so it can be repeated."""
    while True:
        with stream.active():
            try:
                found = next(iterator)
            except StopIteration:
                return
        yield found


def generators_of(loader: Any) -> list[Any]:
    """Return the random generators of a loader and of its samplers."""
    batches, own = getattr(loader, "batch_sampler", None), getattr(loader, "sampler", None)
    holders = (loader, own, batches, getattr(batches, "sampler", None))
    found = [getattr(holder, "generator", None) for holder in holders]
    return list({id(each): each for each in found if hasattr(each, "set_state")}.values())


def length_of(sized: Any) -> int:
    """Return the length, or 0 if it is not known."""
    try:
        return len(sized)
    except TypeError:
        return 0


def samples(batch: Any) -> int:
    """Return the samples in `batch`: the first dimension of its first array; 0: unknown."""
    if isinstance(batch, dict):
        batch = list(batch.values())
    if isinstance(batch, (list, tuple)):
        return next(filter(None, map(samples, batch)), 0)
    shape: Any = getattr(batch, "shape", ())
    try:
        return int(shape[0]) if len(shape) else 0
    except (TypeError, ValueError):
        return 0


def sliced(batch: Any, part: slice, *, is_field: bool = False) -> Any:
    """Return the samples `part` of all fields of `batch`. Raises TraindeckError for other entries.

    A list in a field is one of samples, such as the images of a collate_fn that keeps their sizes.
    """
    if isinstance(batch, dict):
        return {key: sliced(value, part, is_field=True) for key, value in batch.items()}
    if isinstance(batch, (list, tuple)) and not is_field:
        fields = (sliced(value, part, is_field=True) for value in batch)
        return type(batch)(*fields) if hasattr(batch, "_fields") else type(batch)(fields)
    if isinstance(batch, (list, tuple)) or len(getattr(batch, "shape", ())):
        return batch[part]
    raise TraindeckError(
        f"batches(split=True) cannot take a part of a {type(batch).__name__} in a batch: divide "
        "the data in the data set, and say split=False."
    )
