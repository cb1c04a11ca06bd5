"""What `datasets()` of a PyTorch recipe gave: training data and validation sets of one rank."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from pathlib import Path, PurePath
from typing import Any, NamedTuple, TypeGuard

import msgspec
import numpy as np
import torch
from torch import distributed
from torch.utils.data import (
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    TensorDataset,
    default_collate,
)
from torch.utils.data.distributed import DistributedSampler

from engine.facts import run_facts
from engine.pytorch.parallel import Parallel
from engine.pytorch.samples.batch_sharder import BatchSharder, LocalBatch, Place, Sharder
from engine.pytorch.samples.data import Columns, Samples, as_samples, is_columns
from engine.pytorch.samples.loader import Fetching, not_of_the_user
from engine.pytorch.samples.nested import Batch, inputs_and_targets
from engine.pytorch.samples.order import BySampler, InOrder, Order, Shuffled, as_indices
from engine.pytorch.samples.streams import Stream, StreamSharder
from engine.spec.run_spec import RunSpec
from engine.training.errors import TrainingFailed
from engine.training.probes.data_fingerprint import draws_by_itself, fingerprint
from engine.training.protocols import UNKNOWN
from engine.training.sample_order import GlobalBatches
from engine.training.shrinking import SHRINK

TRAIN = "train"
_VALIDATION_NAMES = ("validation", "valid", "val", "dev", "eval", "test")
"""Names of validation sets beside `train`; the first that exists is *the* validation set."""


class UnusableData(TrainingFailed, ValueError):
    """Data that the training cannot use; the text says what to change."""


class DataFacts(NamedTuple):
    """What decides how the data are read."""

    spec: RunSpec
    device: torch.device
    takes_pairs: bool = True
    """Whether the recipe has `loss(outputs, targets)`, and not `step(model, batch)`."""

    has_own_loss: bool = True
    collate: Callable[[list[Any]], Any] | None = None
    """The recipe's `collate(samples)`, where no DataLoader has its own; None: PyTorch's."""

    weigh: Callable[[Batch], Any] | None = None
    """The recipe's `weight(batch)`."""

    owns: Callable[[Path], bool] = not_of_the_user
    """Whether a file is the user's code."""

    notice: Callable[[str], None] = lambda _: None
    """Tells the user a sentence; on one rank only."""

    is_equal: Callable[[int], bool] = lambda _: True
    """Whether a number is the same on all ranks, which must call it together."""

    def as_pair(self, batch: Batch) -> tuple[Any, Any]:
        """Return inputs and targets. Raises UnusableBatch."""
        return inputs_and_targets(batch, has_own_loss=self.has_own_loss)

    def place(self, parallel: Parallel) -> Place:
        """Return which local batches a rank computes."""
        return Place(
            parallel.replica,
            parallel.replicas,
            self.spec.accumulation,
            parallel.device,
            self.as_pair if self.takes_pairs else None,
            self.weigh,
        )


class TrainingData:
    """The data of one rank. All ranks construct it, and its sharders, together."""

    def __init__(self, given: Any, facts: DataFacts) -> None:
        """`given` is what datasets() returned. Raises UnusableData and other TrainingFailed."""
        self._facts = facts
        train, validation = divide(of_data_module(given), facts.takes_pairs)
        self._given = train
        self._train = _source(train, facts, "training data")
        self._validation = [
            (f"{name}_" if name else "", _source(data, facts, "validation data"))
            for name, data in validation.items()
        ]
        self._check()

    def first(self) -> Batch:
        """Return a batch of one training sample: a pair, if the recipe takes pairs.

        It is on the CPU, until `move_to_gpu`.
        """
        first = self._train.first()
        return self._facts.as_pair(first) if self._facts.takes_pairs else first

    def fingerprint(self) -> run_facts.DataFacts | None:
        """Return what the training data hold; None: their length is not known."""
        return self._train.fingerprint(self._facts.spec.seed)

    @property
    def prefixes(self) -> list[str]:
        """How the names of the metrics of each validation set begin; the first one's is empty."""
        return [prefix for prefix, _ in self._validation]

    @property
    def is_shuffled(self) -> bool:
        """Whether the order of the training samples is random."""
        return self._train.is_shuffled

    def move_to_gpu(self) -> None:
        """Move arrays to the GPU of this rank, where they need little of its free memory.

        Call it when the model and all that its steps need have their memory already. With a weight
        of the recipe's they stay: on a GPU, the host would wait for the weight of each batch.
        """
        for source in self._sources() if self._facts.weigh is None else ():
            source.move_to_gpu(self._facts.device)

    def move_to_host(self) -> None:
        """Move what `move_to_gpu` moved back to the host's memory."""
        for source in self._sources():
            source.move_to_host()

    def train_sharder(self, parallel: Parallel) -> Sharder:
        """Return the local batches of this rank."""
        return self._train.sharder(self._facts.place(parallel))

    @property
    def own_loader_workers(self) -> int:
        """The loader workers that the recipe itself asks for, with its DataLoader."""
        return self._given.num_workers if isinstance(self._given, DataLoader) else 0

    @property
    def needs_no_loading(self) -> bool:
        """Whether the training samples are rows of arrays."""
        return isinstance(self._train, _Indexed) and self._train.has_columns

    def sharder_with(self, loader_workers: int, parallel: Parallel) -> Sharder | None:
        """Return the local batches as so many loader workers load them; None if they cannot.

        It does not talk to the other ranks. Raises UnusableData.
        """
        if self.needs_no_loading or self._train.is_used_up_by_one_pass:
            return None
        facts = self._facts._replace(
            spec=msgspec.structs.replace(self._facts.spec, loader_workers=loader_workers),
            notice=lambda _: None,
            is_equal=lambda _: True,
        )
        if isinstance(self._train, _Streamed) and loader_workers > 1:
            return None
        return _source(self._given, facts, "training data").sharder(facts.place(parallel))

    def validation_sets(self, parallel: Parallel) -> ValidationSets:
        """Return the local batches of this rank; weights are those of samples."""
        place = self._facts.place(parallel)
        return ValidationSets(
            [(prefix, source.sharder(place)) for prefix, source in self._validation]
        )

    def _sources(self) -> list[_Source]:
        return [self._train, *(source for _, source in self._validation)]

    def _check(self) -> None:
        spec, train = self._facts.spec, self._train
        if spec.checkpoint_best and not self._validation:
            raise UnusableData(
                "The run keeps the best checkpoint by a validation metric "
                f"({spec.checkpoint_best}), but datasets() gave no validation set: give one, or "
                "leave the field Keep best empty."
            )
        if not train.is_known and spec.schedule != "constant" and not spec.steps:
            raise UnusableData(
                f"The schedule {spec.schedule} needs the number of steps, and the training data "
                "are a stream of unknown length: choose the number of steps of the run, the "
                "schedule constant, or give the stream a length (__len__)."
            )
        passes = spec.epochs if not spec.steps else 1
        for what, source in [
            ("training", train),
            *(("validation", s) for _, s in self._validation),
        ]:
            if source.is_used_up_by_one_pass and passes > 1:
                raise UnusableData(
                    f"The {what} data is an iterator that can be read only once, and the run has "
                    f"{passes} epochs: let datasets() give a function that returns a new iterator, "
                    "or an IterableDataset."
                )


class ValidationSets:
    """The local batches of all validation sets, one set after the other."""

    def __init__(self, sharders: list[tuple[str, Sharder]]) -> None:
        """`sharders`: with the prefix of the names of their metrics."""
        self._sharders = sharders
        self._batches: Iterator[tuple[str, Iterable[LocalBatch]]] = iter(())
        known = [sharder.batches for _, sharder in sharders]
        self.batches = sum(known) if all(known) else UNKNOWN
        """The number of global batches of all sets; UNKNOWN: a stream has no length."""

    def begin(self) -> None:
        """Begin with the first batch."""
        self._batches = self._all()

    def accumulate(self, steps: int) -> None:
        """See `Sharder`; call it before `begin`."""
        for _, sharder in self._sharders:
            sharder.accumulate(steps)

    def next(self) -> tuple[str, Iterable[LocalBatch]] | None:
        """Return the prefix of the set and the local batches of the next global batch."""
        return next(self._batches, None)

    def close(self) -> None:
        """End the loader workers."""
        for _, sharder in self._sharders:
            sharder.close()

    def _all(self) -> Iterator[tuple[str, Iterable[LocalBatch]]]:
        for prefix, sharder in self._sharders:
            number = 0
            while not sharder.batches or number < sharder.batches:
                local_batches = _unless_empty(sharder.local_batches(0, number))
                if local_batches is None:
                    break
                yield prefix, local_batches
                number += 1


def _unless_empty(batches: Iterator[LocalBatch]) -> Iterator[LocalBatch] | None:
    """Return the same batches, none of which stays in memory once they were used."""
    first = next(batches, None)
    return None if first is None else chain([first], batches)


class _Source:
    """One data set, before it is known which part of it this rank computes."""

    is_known = True
    """Whether its length is known."""

    is_used_up_by_one_pass = False
    is_shuffled = False

    def first(self) -> Batch:
        """Return a batch of one sample."""
        raise NotImplementedError

    def fingerprint(self, seed: int) -> run_facts.DataFacts | None:
        """See `TrainingData`."""
        return None

    def sharder(self, place: Place) -> Sharder:
        """Return the local batches at `place`."""
        raise NotImplementedError

    def move_to_gpu(self, device: torch.device) -> None:
        """See `TrainingData`."""

    def move_to_host(self) -> None:
        """See `TrainingData`."""


class _Indexed(_Source):
    def __init__(self, samples: Samples, order: Order) -> None:
        self._samples = samples
        self._order = order
        self.is_shuffled = isinstance(order, Shuffled)
        self.has_columns = isinstance(samples, Columns)

    def first(self) -> Batch:
        if isinstance(self._order, BySampler):
            chosen = self._order.global_batches(0)[0][:1]
        else:
            chosen = np.zeros(1, np.int64)
        return next(iter(self._samples.batches([chosen], 0)))

    def fingerprint(self, seed: int) -> run_facts.DataFacts | None:
        dataset = getattr(self._samples, "dataset", None)
        if dataset is not None and not hasattr(dataset, "__len__"):
            return None
        read = None if dataset is not None and draws_by_itself(dataset) else self._samples.one
        return fingerprint(len(self._samples), seed, read)

    def sharder(self, place: Place) -> Sharder:
        return BatchSharder(self._samples, self._order, place)

    def move_to_gpu(self, device: torch.device) -> None:
        if isinstance(self._samples, Columns):
            self._samples.move_to_gpu(device)

    def move_to_host(self) -> None:
        if isinstance(self._samples, Columns):
            self._samples.move(torch.device("cpu"))


class _Streamed(_Source):
    def __init__(
        self, stream: Stream, make_sharder: Callable[..., StreamSharder], fetching: Fetching
    ) -> None:
        self._stream = stream
        self._make_sharder = make_sharder
        self._collate = fetching.collate
        self._is_ready = make_sharder.keywords["batch_size"] is None  # type: ignore[attr-defined]
        self.is_known = bool(stream.length)
        self.is_used_up_by_one_pass = stream.is_used_up_by_one_pass

    def first(self) -> Batch:
        sample = self._stream.first()
        return sample if self._is_ready else self._collate([sample])

    def sharder(self, place: Place) -> Sharder:
        return self._make_sharder(self._stream, place)


def divide(given: Any, takes_pairs: bool) -> tuple[Any, dict[str, Any]]:
    """Return the training data and the validation sets by name; `` is the name of the first one.

    Raises UnusableData.
    """
    if isinstance(given, Iterator):
        given = list(_at_most(given, 3))  # such as map(load, ("train", "test"))
        if len(given) != 2:
            raise UnusableData(
                "datasets() gave an iterator, which is neither one data set nor two: return "
                "(train, validation), or for a stream a function that returns an iterator."
            )
    match given:
        case Mapping() if TRAIN in given:
            others = {name: data for name, data in given.items() if name != TRAIN}
            ordered = sorted(others, key=lambda name: _place_of(name))
            return given[TRAIN], _named({name: others[name] for name in ordered})
        case Mapping() if not is_columns(given):
            raise UnusableData(
                f"datasets() gave a dictionary with the keys {', '.join(map(str, given))}: name "
                "the data sets train and validation, or give arrays of one length as one data set."
            )
        case (first, second) if isinstance(given, tuple | list):
            if _is_bare(first) and _is_bare(second):
                if takes_pairs and len(first) == len(second):
                    return given, {}
                raise UnusableData(
                    "datasets() gave two arrays. For one data set of inputs and targets return "
                    "((inputs, targets), None); for two data sets of one array each, return "
                    "((train,), (validation,))."
                )
            if second is None:
                return first, {}
            if isinstance(second, Mapping) and not is_columns(second):
                return first, _named(dict(second))
            return first, {"": second}
        case (only,) if isinstance(given, tuple) and not _is_bare(only):
            return only, {}
        case tuple() if not is_columns(given) and not hasattr(given, "_fields"):
            raise UnusableData(
                f"datasets() gave {len(given)} things: return (train, validation), or, with "
                'several validation sets, (train, {"validation": ..., "test": ...}).'
            )
    return given, {}


def of_data_module(given: Any) -> Any:
    """Return the loaders of a LightningDataModule as (train, validation), and others as they are.

    All ranks must call it together: rank 0 prepares the data for all.
    """
    lineage = {(cls.__module__.partition(".")[0], cls.__name__) for cls in type(given).__mro__}
    libraries = ("lightning", "pytorch_lightning")
    if not any((library, "LightningDataModule") in lineage for library in libraries):
        return given
    several = distributed.is_available() and distributed.is_initialized()
    if not several or distributed.get_rank() == 0:
        given.prepare_data()
    if several:
        distributed.barrier()
    given.setup("fit")
    validation = given.val_dataloader()
    if isinstance(validation, list | tuple):
        validation = {f"set{number}": each for number, each in enumerate(validation)}
    return given.train_dataloader(), validation or None


def _named(sets: dict[str, Any]) -> dict[str, Any]:
    """Return validation sets with the name `` for the first one, without those that are None."""
    present = {name: data for name, data in sets.items() if data is not None}
    return {
        "" if number == 0 else str(name): data
        for number, (name, data) in enumerate(present.items())
    }


def _place_of(name: Any) -> int:
    return _VALIDATION_NAMES.index(name) if name in _VALIDATION_NAMES else len(_VALIDATION_NAMES)


def _is_bare(value: Any) -> bool:
    return isinstance(value, np.ndarray | torch.Tensor)


def _at_most(values: Iterator[Any], count: int) -> Iterator[Any]:
    return (value for value, _ in zip(values, range(count), strict=False))


def _source(dataset: Any, facts: DataFacts, what: str) -> _Source:
    spec = facts.spec
    module = type(dataset).__module__.partition(".")[0]
    if module in ("tensorflow", "tf_keras"):
        raise UnusableData(
            f"datasets() gave a {type(dataset).__name__} of TensorFlow as {what}: a PyTorch recipe "
            "takes arrays, Datasets, DataLoaders and streams; tf.data belongs in a Keras recipe."
        )
    if isinstance(dataset, DataLoader):
        return _of_loader(dataset, facts, what)
    collate = facts.collate or default_collate
    fetching = Fetching(spec.loader_workers, collate, what=what, owns=facts.owns)
    if _is_stream(dataset):
        if spec.loader_workers > 1 and module != "datasets":
            raise UnusableData(
                f"The {what} is a stream, which one loader worker can read ahead: for "
                f"{spec.loader_workers}, give a DataLoader with num_workers, whose dataset divides "
                "its stream by torch.utils.data.get_worker_info()."
            )
        return _streamed(Stream(dataset, what), spec.batch_size, fetching, facts)
    if isinstance(dataset, str | bytes | PurePath):
        raise UnusableData(f"datasets() gave a {type(dataset).__name__} as {what}: load the data.")
    samples = as_samples(
        dataset,
        seed=spec.seed,
        loader_workers=spec.loader_workers,
        device=facts.device,
        fetching=fetching if facts.collate or not _has_columns(dataset) else None,
    )
    order: Order = InOrder(len(samples), spec.batch_size)
    if what == "training data":
        order = Shuffled(len(samples), spec.batch_size, spec.seed)
        _tell_large_batch(len(samples), spec.batch_size, facts)
    return _Indexed(samples, order)


def _has_columns(dataset: Any) -> bool:
    return is_columns(dataset) or isinstance(dataset, TensorDataset)


def _is_stream(dataset: Any) -> bool:
    if isinstance(dataset, IterableDataset):
        return True
    if hasattr(dataset, "__getitem__"):
        return False
    return hasattr(dataset, "__iter__") or (callable(dataset) and not isinstance(dataset, type))


def _of_loader(loader: DataLoader[Any], facts: DataFacts, what: str) -> _Source:
    spec, dataset = facts.spec, loader.dataset
    own_iteration = type(loader).__iter__
    if own_iteration is not DataLoader.__iter__ and "torchdata" not in own_iteration.__module__:
        # A loader of another library: only it knows which batches it makes.
        return _streamed(Stream(loader, what), None, Fetching(what=what, owns=facts.owns), facts)
    workers = spec.loader_workers or loader.num_workers
    more = {"multiprocessing_context": loader.multiprocessing_context, "timeout": loader.timeout}
    if loader.prefetch_factor is not None:
        more["prefetch_factor"] = loader.prefetch_factor
    fetching = Fetching(
        workers,
        facts.collate
        if loader.collate_fn is default_collate and facts.collate
        else loader.collate_fn,
        loader.worker_init_fn,
        more if loader.num_workers else {},
        what,
        facts.owns,
    )
    if isinstance(dataset, IterableDataset):
        size = None if loader.batch_size is None else _batch_size(loader, facts, what)
        return _streamed(Stream(dataset, what), size, fetching, facts, loader.drop_last)
    if loader.batch_size is None and loader.batch_sampler is None:
        # Each sample of the data set is a batch.
        return _streamed(_Chosen(loader, what), None, fetching, facts)
    order = _order_of(loader, facts, what)
    count = None if isinstance(loader.sampler, RandomSampler | SequentialSampler) else order.batches
    samples = as_samples(
        dataset,
        seed=spec.seed,
        loader_workers=workers,
        device=facts.device,
        fetching=fetching,
        count=count,
    )
    if order.batches == 0:
        raise UnusableData(
            f"The {what} has {len(samples)} samples, fewer than the batch size, and the DataLoader "
            "drops the last smaller batch (drop_last): choose a smaller batch size."
        )
    return _Indexed(samples, order)


def _batch_size(loader: DataLoader[Any], facts: DataFacts, what: str) -> int:
    """Return the global batch of a loader: that of the run; of a validation loader its own."""
    wanted, size = facts.spec.batch_size, loader.batch_size
    assert size is not None
    if what != "training data":
        return size
    if size == 1 != wanted:
        facts.notice(
            f"The DataLoader of the training data has no batch size of its own (1): the run's, "
            f"{wanted}, is used."
        )
    elif size != wanted:
        raise UnusableData(
            f"The DataLoader of the training data has the batch size {size}, and the run has "
            f'{wanted}: choose {size} for the run (DEFAULTS = {{"batch_size": {size}}} in the '
            "recipe makes that its default), or leave batch_size out of the DataLoader."
        )
    return wanted


def _order_of(loader: DataLoader[Any], facts: DataFacts, what: str) -> Order:
    """Return the global batches that the samplers of a loader of a map-style data set give."""
    spec, sampler, batch_sampler = facts.spec, loader.sampler, loader.batch_sampler
    for each in (sampler, batch_sampler, getattr(batch_sampler, "sampler", None)):
        if isinstance(each, DistributedSampler) and each.num_replicas > 1:
            raise UnusableData(
                f"The DataLoader of the {what} has a DistributedSampler: each batch is divided "
                "over the ranks already, so give the sampler for one process (shuffle=True)."
            )
    by_sampler = partial(
        BySampler,
        seed=spec.seed,
        with_epoch=(loader.dataset, sampler, batch_sampler),
        generator=loader.generator,
    )
    if loader.batch_size is None:
        facts.notice(
            f"The batch_sampler of the DataLoader decides the batches of the {what}: the run's "
            f"batch size, {spec.batch_size}, is not used."
        )
        assert batch_sampler is not None
        return by_sampler(batch_sampler.__iter__, _each_as_indices, name="batch_sampler")
    size, drop_last = _batch_size(loader, facts, what), loader.drop_last
    is_plain = loader.generator is None
    if isinstance(sampler, SequentialSampler):
        return InOrder(len(sampler), size, drop_last=drop_last)
    if is_plain and _is_plain_shuffle(sampler):
        count = sampler.num_samples
        if what != "training data":
            return InOrder(count, size, drop_last=drop_last)
        _tell_large_batch(count, size, facts)
        return Shuffled(count, size, spec.seed, drop_last=drop_last)
    return by_sampler(
        sampler.__iter__,
        lambda values: GlobalBatches(as_indices(values), size, drop_last=drop_last),
    )


def _is_plain_shuffle(sampler: Any) -> TypeGuard[RandomSampler]:
    return (
        type(sampler) is RandomSampler
        and not sampler.replacement
        and sampler.generator is None
        and sampler.num_samples == len(sampler.data_source)
    )


def _each_as_indices(batches: list[Any]) -> list[Any]:
    return [as_indices(batch) for batch in batches]


class _Chosen(Stream):
    """The samples of a map-style data set that a sampler chooses, each of which is a batch."""

    def __init__(self, loader: DataLoader[Any], what: str) -> None:
        super().__init__(loader.dataset, what)
        self._sampler = loader.sampler

    @property
    def length(self) -> int:
        """See `Stream`."""
        sampler: Any = self._sampler
        return len(sampler)

    def begin(self, epoch: int) -> Iterator[Any]:
        """See `Stream`."""
        if hasattr(self._sampler, "set_epoch"):
            self._sampler.set_epoch(epoch)
        return (self.dataset[index] for index in self._sampler)


def _streamed(
    stream: Stream,
    batch_size: int | None,
    fetching: Fetching,
    facts: DataFacts,
    drop_last: bool = False,
) -> _Source:
    make_sharder = partial(
        StreamSharder,
        batch_size=batch_size,
        seed=facts.spec.seed,
        fetching=fetching,
        drop_last=drop_last,
        keeps_batch=facts.spec.on_oom == SHRINK,
        is_equal=facts.is_equal,
    )
    return _Streamed(stream, make_sharder, fetching)


def _tell_large_batch(count: int, batch_size: int, facts: DataFacts) -> None:
    if count < batch_size:
        facts.notice(
            f"The batch size {batch_size} is larger than the training data ({count} samples): each "
            "step trains on all of them."
        )
