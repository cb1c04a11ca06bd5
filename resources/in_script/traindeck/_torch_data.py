"""The batches of a torch DataLoader: in its own order, from any batch on, divided over the ranks.

Imported only when the script has imported torch.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch.utils import data
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset

from traindeck._errors import TraindeckError
from traindeck._source import Part, Source, generators_of, length_of
from traindeck._state.random_state import RandomState, Stream, seed_all

_OWN_SAMPLERS = (
    data.SequentialSampler,
    data.RandomSampler,
    data.SubsetRandomSampler,
    data.WeightedRandomSampler,
    DistributedSampler,
)
"""They draw all that they need from the process' random numbers before their first index."""


def is_loader(loader: Any) -> bool:
    """Whether this is a DataLoader of samples with an index, which `LoaderSource` can repeat."""
    return (
        isinstance(loader, DataLoader)
        and type(loader).__iter__ is DataLoader.__iter__
        and not isinstance(loader.dataset, IterableDataset)
        and not callable(getattr(loader, "state_dict", None))
    )


class LoaderSource(Source):
    """A DataLoader like that of the script: the same samples, collate_fn, samplers and workers."""

    def __init__(self, loader: DataLoader[Any], rank: int, world: int, split: bool | None) -> None:
        """`split`: whether the ranks share each batch; None: unless its sampler does so already."""
        sampler = _sampler(loader)
        is_shared = isinstance(sampler, DistributedSampler)
        if is_shared and world > 1 and split is None and sampler.num_replicas != world:
            raise TraindeckError(
                f"The DistributedSampler divides its samples over {sampler.num_replicas} ranks, "
                f"but the run has {world}. Leave the sampler out: batches() divides each batch."
            )
        if loader.batch_sampler is None and split and world > 1:
            raise TraindeckError(
                "batches() cannot divide a DataLoader with batch_size=None over the ranks. Give "
                "it a batch_size, or divide the samples in the data set and say split=False."
            )
        divides = world > 1 and (split if split is not None else not is_shared)
        self.is_divided = divides
        self._order = _Order(loader, rank if divides else 0, world if divides else 1)
        self._loader = _like(loader, self._order)
        self._keeps_workers = loader.persistent_workers and loader.num_workers > 0
        self.generators = generators_of(loader)
        self.count = length_of(loader)
        self.fingerprint = [
            type(loader.dataset).__qualname__,
            length_of(loader.dataset),
            type(sampler).__qualname__,
            loader.batch_size or 0,
            self.count,
        ]

    def begin(self, first: int, seed: int) -> None:
        # With workers that stay, a DataLoader draws a seed for them once, otherwise in each pass.
        self._order.begin(first, seed, draws_seed=not (self._keeps_workers and self.passes_before))

    def batches(self) -> Iterator[Any]:
        return iter(self._loader)

    def part(self, batch: Any) -> Part:
        return self._order.parts.popleft()


class _Keyed(NamedTuple):
    """Indices of samples, and the seed of what a worker draws for them."""

    seed: int
    index: Any


class _Order:
    """The batch sampler of a `LoaderSource`: the indices of this rank's parts."""

    def __init__(self, loader: DataLoader[Any], rank: int, world: int) -> None:
        self._sampler: Any = (
            loader.sampler if loader.batch_sampler is None else loader.batch_sampler
        )
        self._has_batches = loader.batch_sampler is not None
        self._generator = loader.generator
        self._draws_at_once = isinstance(_sampler(loader), _OWN_SAMPLERS) and type(
            self._sampler
        ) in (data.BatchSampler, *_OWN_SAMPLERS)
        self._has_workers = loader.num_workers > 0
        self._rank = rank
        self._world = world
        self._inner: Iterator[Any] = iter(())
        self._ahead: list[Any] = []
        self._stream: Stream | None = None
        self._drawn = 0
        self._seed = 0
        self.parts: deque[Part] = deque()
        """Of each batch that was handed out, from the oldest that was not asked for."""

    def begin(self, first: int, seed: int, *, draws_seed: bool) -> None:
        """Begin a pass at batch `first`; draw from the process' numbers as a loader does."""
        self.parts.clear()
        self._stream, self._drawn, self._seed = None, 0, seed
        self._inner = iter(self._sampler)
        if draws_seed:
            torch.empty((), dtype=torch.int64).random_(generator=self._generator)
        self._ahead = []
        for _ in range(first + 1):
            self._ahead = self._draw()

    def __iter__(self) -> Iterator[Any]:
        while self._ahead:
            number = self._drawn - 1
            whole = self._ahead[0]
            own = whole
            if self._world > 1:
                own = whole[self._rank :: self._world]
            if self._has_batches:
                self.parts.append(Part(len(own), len(whole)))
                # A rank without samples computes one with the weight 0: it meets all collectives.
                own = own if len(own) else whole[:1]
            else:
                self.parts.append(Part(0, 0))
            yield _Keyed(hash((self._seed, number)) % 2**31, own) if self._has_workers else own
            self._ahead = self._draw()

    def __len__(self) -> int:
        return len(self._sampler)

    def _draw(self) -> list[Any]:
        """Return the next batch of indices in a list; an empty one at the end."""
        if self._drawn and self._ahead == []:
            return []
        self._drawn += 1
        if self._draws_at_once or self._drawn == 1:
            found = next(self._inner, None)
            if not self._draws_at_once:
                self._stream = Stream(RandomState.now())
        else:
            assert self._stream is not None
            with self._stream.active():
                found = next(self._inner, None)
        if found is None:
            return []
        return [list(found) if self._has_batches and not hasattr(found, "__getitem__") else found]


class _Seeded:
    """A data set in a loader worker. What it draws follows from the seed of the batch alone."""

    def __init__(self, dataset: Any) -> None:
        self.__dict__["traindeck_inner"] = dataset

    def __getitems__(self, keyed: _Keyed) -> list[Any]:
        seed_all(keyed.seed)
        inner = self.__dict__["traindeck_inner"]
        whole = getattr(inner, "__getitems__", None)
        found: list[Any] = whole(keyed.index) if whole else [inner[i] for i in keyed.index]
        return found

    def __getitem__(self, keyed: _Keyed) -> Any:
        seed_all(keyed.seed)
        return self.__dict__["traindeck_inner"][keyed.index]

    def __len__(self) -> int:
        return len(self.__dict__["traindeck_inner"])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.__dict__["traindeck_inner"], name)


class _BeginWorker:
    """The script's worker_init_fn, which sees the data set of the script."""

    def __init__(self, function: Any) -> None:
        self._function = function

    def __call__(self, worker: int) -> None:
        info: Any = data.get_worker_info()
        if isinstance(getattr(info, "dataset", None), _Seeded):
            object.__setattr__(info, "dataset", info.dataset.__dict__["traindeck_inner"])
        if self._function is not None:
            self._function(worker)


def _like(loader: DataLoader[Any], order: _Order) -> DataLoader[Any]:
    """Return a loader with the options of `loader` and another order."""
    workers = loader.num_workers
    options: dict[str, Any] = {
        "num_workers": workers,
        "collate_fn": loader.collate_fn,
        "pin_memory": loader.pin_memory,
        "timeout": loader.timeout,
        "multiprocessing_context": loader.multiprocessing_context,
        "generator": torch.Generator(),  # of its own: what a pass draws is drawn by the order
    }
    if workers:
        options["worker_init_fn"] = _BeginWorker(loader.worker_init_fn)
        options["prefetch_factor"] = loader.prefetch_factor
        options["persistent_workers"] = loader.persistent_workers
        if "in_order" in inspect.signature(DataLoader.__init__).parameters:
            options["in_order"] = True  # otherwise the order of the batches would be chance
    if loader.batch_sampler is None:
        options |= {"batch_size": None, "sampler": order}
    else:
        options["batch_sampler"] = order
    dataset: Any = _Seeded(loader.dataset) if workers else loader.dataset
    return DataLoader(dataset, **options)


def _sampler(loader: DataLoader[Any]) -> Any:
    """Return the sampler of indices, also inside a batch sampler."""
    if loader.batch_sampler is None:
        return loader.sampler
    return getattr(loader.batch_sampler, "sampler", loader.batch_sampler)
