"""Data sets that give batches in their own order: tf.data, and the batches of `PyDataset`."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from engine.tf.samples.data import ArraySamples, Batch, rows
from engine.training import sample_order

_BATCHES = {
    "_BatchDataset",
    "_DenseToRaggedBatchDataset",
    "_DenseToSparseBatchDataset",
    "_LegacyRebatchDataset",
    "_MapAndBatchDataset",
    "_PaddedBatchDataset",
    "_ParallelBatchDataset",
    "_RebatchDataset",
}
_SAMPLES = {"_RangeDataset", "_TensorSliceDataset", "_UnbatchDataset"}
"""Kinds of tf.data whose elements are batches, or single samples."""

_STATEFUL = ("PyFunc", "EagerPyFunc", "RandomUniform", "RandomStandardNormal", "Multinomial")
"""Operations whose results depend on all earlier elements."""


class BatchStream(ABC):
    """Batches whose order the recipe decides. All ranks read the same batches."""

    batches = 0
    """The number of batches of an epoch; 0 if it is not known."""

    def __init__(self, first: Batch) -> None:
        """`first` is a batch of the data."""
        flat = tf.nest.flatten(first)
        if any(isinstance(part, tf.RaggedTensor | tf.SparseTensor) for part in flat):
            raise ValueError(
                "datasets() gave batches of ragged or sparse tensors, which cannot be divided "
                "among devices: make them dense with to_tensor(), tf.sparse.to_dense() or "
                "padded_batch()."
            )
        sizes = {len(array) for array in flat}
        if len(sizes) != 1:
            raise ValueError(
                f"datasets() gave a batch whose parts have {', '.join(map(str, sorted(sizes)))} "
                "samples: each part must have one row per sample."
            )
        self.batch_size = min(sizes)
        """The number of samples of that batch."""

        self.sample: Batch = rows(first, tf.constant([0]))
        """A batch of one sample."""

        self.element_spec = tf.nest.map_structure(_any_size, first)
        """The specs of a batch of any size."""

    @abstractmethod
    def open(self, epoch: int, first: int) -> tf.data.Iterator:
        """Return the batches of `epoch` from number `first` on.

        Epochs are opened in their order. What an earlier process has read is read again, as far as
        later batches depend on it. A negative epoch is that of data which is always read alike.
        """


DataSet = ArraySamples | BatchStream
"""One data set of a recipe."""


def batches_of(data: DataSet, batch_size: int) -> int:
    """Return the number of batches of an epoch; 0 if it is not known."""
    if isinstance(data, BatchStream):
        return data.batches
    return sample_order.batches_per_epoch(len(data), batch_size)


class TfDataStream(BatchStream):
    """A tf.data.Dataset. Its order in an epoch may depend on how often it was read before."""

    def __init__(self, dataset: tf.data.Dataset, batch_size: int) -> None:
        """A dataset of single samples is divided into batches of `batch_size`."""
        if not is_batched(dataset):
            dataset = dataset.batch(batch_size)
        try:
            first = next(iter(dataset))
        except StopIteration:
            raise ValueError(
                "datasets() gave an empty data set: at least one sample is needed."
            ) from None
        super().__init__(first)
        spec = tf.nest.map_structure(_any_length, dataset.element_spec)
        self.element_spec = spec
        self._dataset = dataset
        self._opened = 0
        self._needs_all = _needs_all(dataset)
        self._state = random.getstate(), np.random.get_state()
        self.batches = max(0, int(dataset.cardinality()))

    def open(self, epoch: int, first: int) -> tf.data.Iterator:
        if epoch < 0:
            return iter(self._dataset.skip(first))
        if (epoch, first) != (self._opened, 0):
            now = random.getstate(), np.random.get_state()
            self._restore(self._state)
            while self._opened < epoch:
                self._repeat_epoch()
            iterator = iter(self._dataset)
            for _ in range(first):
                next(iterator, None)
            self._restore(now)
        else:
            iterator = iter(self._dataset)
        self._opened = epoch + 1
        return iterator

    def _repeat_epoch(self) -> None:
        """Read an epoch of an earlier process; its first batch alone moves on the shuffling."""
        for _ in self._dataset if self._needs_all else self._dataset.take(1):
            pass
        self._opened += 1

    @staticmethod
    def _restore(state: tuple[Any, Any]) -> None:
        random.setstate(state[0])
        np.random.set_state(state[1])


class PyDatasetStream(BatchStream):
    """The batches of a `keras.utils.PyDataset`, by number, shuffled for the training."""

    def __init__(self, dataset: keras.utils.PyDataset, *, seed: int | None) -> None:
        """`seed` is that of the shuffling; None: the batches come in their order."""
        self.batches = dataset.num_batches or 0
        self._dataset = dataset
        self._seed = seed
        self._ended = 0
        self._state = np.random.get_state()
        first = _as_tensors(dataset[0])
        super().__init__(first)

    def open(self, epoch: int, first: int) -> tf.data.Iterator:
        if epoch >= 0:
            self._go_to(epoch)
        self._dataset.on_epoch_begin()
        order: Any = range(self.batches)[first:] if self.batches else count(first)
        if self.batches and self._seed is not None:
            order = sample_order.epoch_order(self.batches, self._seed, epoch).tolist()[first:]
        fetched = tf.data.Dataset.from_generator(
            lambda: self._in_order(order), output_signature=self.element_spec
        )
        return iter(fetched.prefetch(tf.data.AUTOTUNE))

    def _go_to(self, epoch: int) -> None:
        """Tell the data set of the epochs that have ended, also in an earlier process."""
        if not self._ended and epoch:
            now = np.random.get_state()
            np.random.set_state(self._state)
            while self._ended < epoch:
                self._end_epoch()
            np.random.set_state(now)
        while self._ended < epoch:
            self._end_epoch()

    def _end_epoch(self) -> None:
        self._dataset.on_epoch_end()
        self._ended += 1

    def _fetch(self, number: int) -> Batch:
        return _as_tensors(self._dataset[number])

    def _in_order(self, order: Any) -> Iterator[Batch]:
        """Yield the batches with these numbers; its workers are threads here."""
        workers = self._dataset.workers
        if workers <= 1:
            yield from map(self._fetch, order)
            return
        waiting: deque[Future[Batch]] = deque()
        with ThreadPoolExecutor(workers) as threads:
            for number in order:
                waiting.append(threads.submit(self._fetch, number))
                if len(waiting) > workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()


def as_stream(dataset: Any, batch_size: int, *, seed: int | None) -> BatchStream:
    """Return a data set that is a stream; `seed` shuffles the batches of a `PyDataset`.

    Raises ValueError if its batches have another size than `batch_size`.
    """
    stream: BatchStream
    if isinstance(dataset, tf.data.Dataset):
        stream = TfDataStream(dataset, batch_size)
    elif isinstance(dataset, keras.utils.PyDataset):
        stream = PyDatasetStream(dataset, seed=seed)
    else:
        raise ValueError(
            f"datasets() gave a {type(dataset).__name__}: each data set must be a pair (inputs, "
            "targets) of arrays, a tf.data.Dataset or a keras.utils.PyDataset."
        )
    is_last = stream.batches == 1
    if seed is not None and stream.batch_size != batch_size and not is_last:
        raise ValueError(
            f"The batches that datasets() gave have {stream.batch_size} samples, and the run has "
            f"the batch size {batch_size}: choose {stream.batch_size} for the run (in the recipe "
            f'with DEFAULTS = {{"batch_size": {stream.batch_size}}}), or the other for the data.'
        )
    return stream


def is_batched(dataset: tf.data.Dataset) -> bool:
    """Return whether the elements of a data set are batches. Raises ValueError if unknown."""
    current: Any = dataset
    while current is not None:
        kind = type(current).__name__
        if kind in _BATCHES:
            return True
        if kind in _SAMPLES:
            return False
        inputs = current._inputs() if kind != "_FlatMapDataset" else ()
        current = inputs[0] if inputs else None
    shapes = [spec.shape for spec in tf.nest.flatten(dataset.element_spec)]
    if any(shape.rank == 0 for shape in shapes):
        return False
    if any(shape.rank is None for shape in shapes) or all(shape[0] is None for shape in shapes):
        return True
    if len({shape[0] for shape in shapes}) > 1:
        return False
    raise ValueError(
        "datasets() gave a tf.data.Dataset of which it is not known whether its elements are "
        "samples or batches: call batch() of it."
    )


def _needs_all(dataset: tf.data.Dataset) -> bool:
    """Return whether an epoch depends on every element of the epochs before."""
    for function in dataset._functions():
        definition = function.function.graph.as_graph_def()
        nodes = [*definition.node, *(n for f in definition.library.function for n in f.node_def)]
        if any(node.op in _STATEFUL or node.op.startswith("PyFunc") for node in nodes):
            return True
    return any(map(_needs_all, dataset._inputs()))


def _as_tensors(batch: Any) -> Batch:
    """Return a batch of arrays as Keras' `fit` converts it."""
    parts = tuple(batch) if isinstance(batch, list) else batch
    if isinstance(parts, np.ndarray):
        parts = (parts,)

    def convert(array: Any) -> Any:
        array = np.asarray(array)
        is_double = array.dtype == np.float64
        return array.astype(keras.config.floatx()) if is_double else array

    return tf.nest.map_structure(convert, parts)


def _any_size(array: Any) -> tf.TensorSpec:
    tensor = tf.convert_to_tensor(array)
    return tf.TensorSpec((None, *tensor.shape[1:]), tensor.dtype)


def _any_length(spec: Any) -> Any:
    """Return a spec of tf.data for batches of any size."""
    if not isinstance(spec, tf.TensorSpec) or spec.shape.rank is None:
        return spec
    return tf.TensorSpec((None, *spec.shape[1:]), spec.dtype)
