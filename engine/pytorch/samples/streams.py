"""Data sets without random access: every rank reads the whole stream and takes its samples.

So the ranks train like one device, whatever the stream is. A resumed run skips what was read, or
restores the state of the stream, if that has one.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import itertools
import time
import zlib
from collections.abc import Callable, Generator, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import IterableDataset, default_collate, get_worker_info

from engine.pytorch.samples.batch_sharder import LocalBatch, Place
from engine.pytorch.samples.loader import Fetching, Wrapped
from engine.pytorch.samples.loader_workers import LoaderWatch, each_next, end_workers
from engine.pytorch.samples.names import SamplesDiffer, difference
from engine.pytorch.samples.nested import Batch, leaves_of, rows_of, take_rows
from engine.pytorch.samples.order import (
    RandomState,
    preserved_random_state,
    random_state,
    seed_generators,
    seed_of,
    seeded,
    set_random_state,
)
from engine.training.errors import TrainingFailed

FINGERPRINT_BYTES = 65_536
"""As many bytes of the first sample of a batch are compared between ranks."""


CHECK_BATCHES = 64
"""Every so many batches, and at the begin of each epoch, the ranks compare what they read."""


class UnusableStream(TrainingFailed):
    """A stream that cannot be read as the training needs it; the text says what to change."""


class Parts(NamedTuple):
    """A global batch of which this replica has its parts."""

    batches: list[Batch]
    """One per accumulation step, collated; a part without samples holds one of weight 0."""

    samples: list[int]
    """The number of samples of each part."""

    global_size: int
    fingerprint: int
    """Depends on the first sample: all ranks must read the same."""


class Stream:
    """A stream of the recipe: how often it can be begun, and how long it is."""

    def __init__(self, dataset: Any, what: str) -> None:
        """`dataset`: an iterable, or a function that returns an iterator."""
        self.dataset = dataset
        self.what = what
        self.is_used_up_by_one_pass = hasattr(dataset, "__next__")
        self._has_begun = False
        self._first: list[Any] = []
        self._takes_epoch = _takes_epoch(dataset)

    @property
    def length(self) -> int:
        """The number of samples; 0: unknown."""
        try:
            return len(self.dataset)
        except TypeError:
            return 0

    @property
    def has_exact_state(self) -> bool:
        """Whether the stream can say where it is, and go on there with the very next sample."""
        return not _loses_its_buffer(self.dataset) and all(
            callable(getattr(self.dataset, name, None))
            for name in ("state_dict", "load_state_dict")
        )

    def first(self) -> Any:
        """Return the first sample; what can be read once keeps it."""
        with preserved_random_state():
            for sample in self.begin(0):
                if self.is_used_up_by_one_pass:
                    self._first, self._has_begun = [sample], False
                return sample
        raise ValueError("datasets() gave an empty data set: at least one sample is needed.")

    def begin(self, epoch: int) -> Iterator[Any]:
        """Return an iterator over the samples of an epoch. Raises UnusableStream."""
        if self.is_used_up_by_one_pass and self._has_begun:
            raise UnusableStream(
                f"The {self.what} is a {type(self.dataset).__name__}, which can be read only once: "
                "let datasets() give a function that returns a new iterator, or an IterableDataset."
            )
        self._has_begun = True
        first, self._first = self._first, []
        if hasattr(self.dataset, "set_epoch"):
            self.dataset.set_epoch(epoch)
        if callable(self.dataset) and not hasattr(self.dataset, "__iter__"):
            return iter(self.dataset(epoch) if self._takes_epoch else self.dataset())
        return itertools.chain(first, self.dataset) if first else iter(self.dataset)


class StreamSharder:
    """One rank's local batches of a stream; see `engine.pytorch.samples.batch_sharder.Sharder`."""

    def __init__(
        self,
        stream: Stream,
        place: Place,
        *,
        batch_size: int | None,
        seed: int,
        fetching: Fetching,
        drop_last: bool = False,
        keeps_batch: bool = False,
        is_equal: Callable[[int], bool] = lambda _: True,
    ) -> None:
        """`batch_size` None: each sample of the stream is a global batch already.

        `keeps_batch`: the last batch may be asked for again. `is_equal` tells whether a number is
        the same on all ranks, which must call it together.
        """
        self._stream = stream
        self._place = place
        self._batch_size = batch_size
        self._seed = seed
        self._fetching = fetching
        self._drop_last = drop_last
        self._is_equal = is_equal
        self._divide = _Divide(place, fetching, seed, batch_size is None)
        self._keeps_batch = keeps_batch
        self._kept: Any = None
        """What the last batch was divided from."""

        self._asked = self._again = (-1, -1)
        """The last batch that was asked for; that one, if it is asked for once more."""

        length = stream.length
        if length and batch_size:
            length = length // batch_size if drop_last else -(-length // batch_size)
        self.batches = length
        self.waiting_seconds = 0.0
        self._position = (-1, -1)
        self._parts: Iterator[Parts] = iter(())
        self._random: RandomState | None = None
        self._saved: dict[str, Any] = {}
        self._fetched_parts: Generator[Parts] | None = None

    def local_batches(self, epoch: int, batch: int) -> Iterator[LocalBatch]:
        """See `Sharder`."""
        begin = time.perf_counter()
        self._asked = (epoch, batch)
        begins = (epoch, batch) != self._position
        if begins:
            self._begin(epoch, batch)
        self._position = (-1, -1)  # unless the batch is read whole
        parts = next(self._parts, None) if not self.batches or batch < self.batches else None
        self._position = (epoch, batch + 1)
        self.waiting_seconds += time.perf_counter() - begin
        if parts is None:
            if batch == 0:
                raise UnusableStream(
                    f"The {self._stream.what} gave no sample in epoch {epoch + 1}: a stream must "
                    "begin anew each time that it is iterated."
                )
            self._position = (-1, -1)
            return
        is_again, self._again = self._again == (epoch, batch), (-1, -1)
        is_checked = begins or batch % CHECK_BATCHES == 0
        if is_checked and not is_again and not self._is_equal(parts.fingerprint):
            raise UnusableStream(
                f"The {self._stream.what} is a stream that gives other samples on another rank, so "
                "the ranks would not share each batch: let its order depend on a seed alone, or "
                "train on one device. Every rank reads the whole stream; the engine divides it."
            )
        for number, samples in enumerate(parts.samples):
            begin = time.perf_counter()
            local = self._place.local_batch(parts.batches[number], samples, parts.global_size)
            self.waiting_seconds += time.perf_counter() - begin
            yield local

    def accumulate(self, steps: int) -> None:
        """See `Sharder`. What loader workers have read ahead is divided: they read it once more."""
        self._place = self._place._replace(accumulation=steps)
        self._again = self._asked
        was_read = self._position == (self._asked[0], self._asked[1] + 1)
        self._divide.change(self._place)
        if self._fetching.workers or not was_read:
            self._position = (-1, -1)
            return
        with preserved_random_state():
            self._parts = itertools.chain([self._divide(self._kept)], self._parts)
        self._position = self._asked

    def state(self) -> dict[str, Any]:
        """Return where the stream is, for a checkpoint; {}: a resumed run skips what was read."""
        epoch, batch = self._position
        if epoch < 0 or batch <= 0 or not self._can_restore or self._random is None:
            return {}
        content = io.BytesIO()
        torch.save(self._stream.dataset.state_dict(), content)
        try:
            torch.load(io.BytesIO(content.getvalue()), weights_only=True)
        except Exception:  # it holds objects that are not read without running their code
            return {}
        python, numpy, pytorch = self._random
        return {
            "epoch": epoch,
            "batch": batch,
            "stream": content.getvalue(),
            "python": [python[0], list(python[1]), python[2]],
            "numpy": [numpy[0], torch.from_numpy(numpy[1].astype(np.int64)), *numpy[2:]],
            "torch": pytorch,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on where `state` was returned, if the training goes on at that batch."""
        self._saved = state if self._can_restore else {}

    def close(self) -> None:
        """See `Sharder`."""
        self._parts = iter(())
        if self._fetched_parts is not None:
            self._fetched_parts.close()

    @property
    def _can_restore(self) -> bool:
        return self._stream.has_exact_state and not self._fetching.workers

    def _begin(self, epoch: int, first: int) -> None:
        """Let `_parts` be the global batches of `epoch` from number `first` on."""
        saved, self._saved = self._saved, {}
        self._divide.begin(epoch, 0 if self._fetching.workers else first)
        if self._fetching.workers:
            if self._fetched_parts is not None:
                self._fetched_parts.close()
            self._fetched_parts = self._fetched(epoch)
            self._parts = itertools.islice(self._fetched_parts, first, None)
        elif saved and (saved["epoch"], saved["batch"]) == (epoch, first):
            self._restore(saved)
            self._parts = self._read(epoch, 0, _OwnRandom(0, self._random))
        else:
            self._parts = self._read(epoch, first, _OwnRandom(seed_of(self._seed, epoch)))

    def _restore(self, saved: dict[str, Any]) -> None:
        state = torch.load(io.BytesIO(saved["stream"]), weights_only=True)
        self._stream.dataset.load_state_dict(state)
        python, numpy = saved["python"], saved["numpy"]
        self._random = (
            (python[0], tuple(python[1]), python[2]),
            (numpy[0], numpy[1].numpy().astype(np.uint32), *numpy[2:]),
            saved["torch"],
        )

    def _read(self, epoch: int, skipped: int, own: _OwnRandom) -> Iterator[Parts]:
        """Yield the global batches of an epoch after the first `skipped` ones."""
        with own:
            samples = self._stream.begin(epoch)
            for _ in itertools.islice(samples, skipped * (self._batch_size or 1)):
                pass
        while True:
            with own:
                parts = self._next_parts(samples)
            self._random = own.state
            if parts is None:
                return
            yield parts

    def _next_parts(self, samples: Iterator[Any]) -> Parts | None:
        if self._batch_size is None:
            batch = next(samples, None)
            self._kept = batch if self._keeps_batch else None
            return None if batch is None else self._divide(batch)
        chosen = list(itertools.islice(samples, self._batch_size))
        if not chosen or (self._drop_last and len(chosen) < self._batch_size):
            return None
        self._kept = chosen if self._keeps_batch else None
        return self._divide(chosen)

    def _fetched(self, epoch: int) -> Generator[Parts]:
        """Yield what loader workers read ahead; each of them has its own copy of the stream."""
        watch = LoaderWatch(
            self._fetching.workers,
            lambda number: f"sample {number} of its part of the {self._stream.what}",
            self._fetching.owns,
        )
        loader = self._fetching.loader(
            _Watched(self._stream, epoch, self._seed, watch),
            watch,
            batch_size=self._batch_size,
            collate_fn=self._divide,
            generator=torch.Generator().manual_seed(seed_of(self._seed, epoch)),
            **({"drop_last": self._drop_last} if self._batch_size else {}),
        )
        with preserved_random_state():
            batches = iter(loader)
        try:
            yield from each_next(watch, batches)
        finally:
            end_workers(watch, batches)


class _Watched(Wrapped, IterableDataset[Any]):
    """A stream in a loader worker, which notes the number of the sample that it reads."""

    def __init__(self, stream: Stream, epoch: int, seed: int, watch: LoaderWatch) -> None:
        self.dataset = stream.dataset
        self._seed = seed
        self._stream = stream
        self._epoch = epoch
        self._watch = watch

    def __iter__(self) -> Iterator[Any]:
        worker = get_worker_info()
        # A single worker draws what the training process would draw.
        several = (worker.id,) if worker and worker.num_workers > 1 else ()
        seed_generators(seed_of(self._seed, self._epoch, *several))
        samples = self._stream.begin(self._epoch)
        for number in itertools.count():
            self._watch.reads(number)
            try:
                sample = next(samples)
            except StopIteration:
                return
            yield sample


class _Divide:
    """Makes the parts of this replica from the samples of a global batch, or from a ready one."""

    def __init__(self, place: Place, fetching: Fetching, seed: int, is_ready: bool) -> None:
        self._seed = seed
        self._epoch = self._batch = 0
        self._collate = fetching.collate
        self._what = fetching.what
        self._is_ready = is_ready
        self._place(place)

    def _place(self, place: Place) -> None:
        self._own_parts = place.own_parts()
        self._parts = place.parts

    def change(self, place: Place) -> None:
        """Divide the last batch again, and those after it, for `place`."""
        self._place(place)
        self._batch -= 1

    def begin(self, epoch: int, batch: int) -> None:
        """Note the number of the next batch: what a collate_fn draws depends on it."""
        self._epoch, self._batch = epoch, batch

    def __call__(self, batch: Any) -> Parts:
        self._batch += 1
        return self._of_ready(batch) if self._is_ready else self._of_samples(batch)

    def _of_samples(self, samples: list[Any]) -> Parts:
        chosen = [samples[part :: self._parts] for part in self._own_parts]
        return Parts(
            [
                self._collated(part or samples[:1], number)
                for part, number in zip(chosen, self._own_parts, strict=True)
            ],
            [len(part) for part in chosen],
            len(samples),
            _fingerprint(samples[0]),
        )

    def _of_ready(self, item: Any) -> Parts:
        batch = item if self._collate is default_collate else self._collate(item)
        rows = rows_of(batch)
        if self._parts == 1:
            size = rows or 1
            return Parts([batch], [size], size, _fingerprint(batch))
        if rows is None:
            raise UnusableStream(
                f"The {self._what} gives batches whose tensors have different numbers of rows, so "
                f"they cannot be divided into {self._parts} parts: let it give single samples (a "
                "DataLoader with a batch_size), or train on one device without accumulation."
            )
        sizes = [len(range(part, rows, self._parts)) for part in self._own_parts]
        return Parts(
            [
                take_rows(batch, slice(part, None, self._parts) if size else slice(0, 1))
                for part, size in zip(self._own_parts, sizes, strict=True)
            ],
            sizes,
            rows,
            _fingerprint(batch),
        )

    def _collated(self, samples: list[Any], part: int) -> Batch:
        try:
            if self._collate is default_collate:
                return default_collate(samples)
            worker = get_worker_info()
            # The parts of other ranks may draw more: the stream's own numbers must stay equal.
            with seeded(self._seed, self._epoch, worker.id if worker else 0, self._batch, part):
                return self._collate(samples)
        except Exception as error:
            if self._collate is default_collate and (
                text := difference(samples, None, range(len(samples)))
            ):
                raise SamplesDiffer(text.replace("sample ", "sample of the batch ")) from error
            error.add_note(f"In a batch of the {self._what}.")
            raise


class _OwnRandom:
    """In its context, the generators of the process have the state of the stream."""

    def __init__(self, seed: int, state: RandomState | None = None) -> None:
        """`seed` counts without a state."""
        self._seed = seed
        self.state = state

    def __enter__(self) -> None:
        self._outside = random_state()
        if self.state is None:
            seed_generators(self._seed)
        else:
            set_random_state(self.state)

    def __exit__(self, *_: object) -> None:
        self.state = random_state()
        set_random_state(self._outside)


def _loses_its_buffer(dataset: Any) -> bool:
    """Whether `dataset` is a stream of Hugging Face that shuffles: its state leaves samples out."""
    if type(dataset).__module__.partition(".")[0] != "datasets":
        return False
    unseen, seen = [getattr(dataset, "_ex_iterable", None)], 0
    while unseen:
        part = unseen.pop()
        if part is None and not seen:
            return True  # of a version whose parts are not known
        if "BufferShuffled" in type(part).__name__:
            return True
        seen += 1
        unseen += [each for each in [getattr(part, "ex_iterable", None)] if each is not None]
        unseen += getattr(part, "ex_iterables", None) or []
    return False


def _takes_epoch(dataset: Any) -> bool:
    if not callable(dataset):
        return False
    with contextlib.suppress(TypeError, ValueError):
        return "epoch" in inspect.signature(dataset).parameters
    return False


def _fingerprint(sample: Any) -> int:
    """Return a number that depends on the first leaf of `sample` that has a content."""
    for _, leaf in leaves_of(sample):
        if isinstance(leaf, torch.Tensor):
            if leaf.is_cpu and leaf.layout == torch.strided:
                flat = leaf.detach().reshape(-1)[: FINGERPRINT_BYTES // leaf.element_size()]
                return zlib.crc32(flat.contiguous().view(torch.uint8).numpy().tobytes())
        elif isinstance(leaf, np.ndarray) and leaf.dtype != object:
            return zlib.crc32(leaf.reshape(-1)[: FINGERPRINT_BYTES // leaf.itemsize].tobytes())
        elif isinstance(leaf, int | float | str | bytes):
            return zlib.crc32(repr(leaf)[:FINGERPRINT_BYTES].encode())
    return 0
