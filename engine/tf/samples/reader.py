"""Runs a function on the next batches of a data set, inside one `tf.function` call."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from engine.tf.graph import HOST, graph
from engine.tf.samples.batch_stream import BatchStream
from engine.tf.samples.data import ArraySamples, Batch, rows_on_host, samples_in
from engine.training import sample_order

Fetch = Callable[[tf.Tensor], Batch]
"""Returns the samples with these indices."""

OnBatch = Callable[[tf.Tensor, Fetch, tf.Tensor], tf.Tensor]
"""Called in a graph with the indices of a batch, int64, with what fetches its samples, and with an
option; returns a tensor of shape (values,)."""

Values = npt.NDArray[np.float64]

OPTIONS = tf.TensorSpec((None,), tf.float32)
"""Their number is that of a tensor, so one trace serves all lengths."""

ANY_EPOCH = -1
"""The epoch of a data set that is read in the same way each time."""


class Reader(Protocol):
    """Reads one data set in batches."""

    def run(self, epoch: int, batch: int, options: tf.Tensor) -> Values:
        """Return the results for the batches from number `batch` on, one for each of `options`.

        There are fewer if the epoch ends before. Float64, of shape (batches, values).
        """

    def restart(self) -> None:
        """Forget where it stands: the next batch is the first one of an epoch."""

    @property
    def has_ended(self) -> bool:
        """Whether the epoch is known to have no more batches."""


class ArrayReader:
    """Reads samples by their indices, in an order that depends on the epoch only."""

    def __init__(
        self,
        samples: ArraySamples,
        batch_size: int,
        seed: int | None,
        on_batch: OnBatch,
    ) -> None:
        """`seed` is that of the shuffling; None: the samples come in their order."""
        self._samples = samples
        self._batch_size = batch_size
        self._seed = seed
        self._on_batch = on_batch
        self._now: tuple[int | None, tf.Tensor] = (None, tf.constant([], tf.int64))
        indices, number = tf.TensorSpec((None,), tf.int64), tf.TensorSpec((), tf.int64)
        self._run = graph(self._run_batches, input_signature=[indices, number, OPTIONS])

    has_ended = False

    def run(self, epoch: int, batch: int, options: tf.Tensor) -> Values:
        if self._now[0] != epoch:
            count = len(self._samples)
            order = (
                np.arange(count, dtype=np.int64)
                if self._seed is None
                else sample_order.epoch_order(count, self._seed, epoch)
            )
            with tf.device(HOST):
                self._now = (epoch, tf.constant(order))
        with tf.device(HOST):
            first = tf.constant(batch, tf.int64)
        found: Values = self._run(self._now[1], first, options).numpy()
        return found

    def restart(self) -> None:
        return

    def _run_batches(self, order: tf.Tensor, first: tf.Tensor, options: tf.Tensor) -> tf.Tensor:
        count = tf.size(options)

        def next_batch(k: tf.Tensor, found: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
            with tf.device(HOST):
                batch = global_batch(order, first + tf.cast(k, tf.int64), self._batch_size)
            values = self._on_batch(batch, self._samples.batch, options[k])
            return k + 1, found.write(k, tf.cast(values, tf.float64))

        start = (tf.constant(0), tf.TensorArray(tf.float64, size=count))
        return tf.while_loop(lambda k, found: k < count, next_batch, start)[1].stack()


class StreamReader:
    """Reads a stream one batch ahead, so that its end is known before a step."""

    def __init__(self, stream: BatchStream, on_batch: OnBatch | None = None) -> None:
        """Without `on_batch`, its batches can only be taken."""
        self._stream = stream
        self._on_batch = on_batch
        self._position: tuple[int, int] | None = None
        self._iterator: Any = None
        self._ahead: Any = None
        self._run: Any = None

    @property
    def has_ended(self) -> bool:
        return self._ahead is not None and not bool(self._ahead.has_value())

    def next_batch(self, epoch: int, batch: int) -> Batch | None:
        """Go to a batch and return it, without reading on; None if the epoch has ended before."""
        if self._position != (epoch, batch):
            self._iterator = self._stream.open(epoch, batch)
            self._ahead = self._iterator.get_next_as_optional()
            self._position = (epoch, batch)
            if self._run is None:
                spec = self._iterator.element_spec
                signature = [tf.data.IteratorSpec(spec), tf.OptionalSpec(spec), OPTIONS]
                self._run = graph(self._run_batches, input_signature=signature)
        return None if self.has_ended else self._ahead.get_value()

    def take(self, epoch: int, batch: int) -> Batch | None:
        """Return a batch, and read on; None if the epoch has ended before."""
        found = self.next_batch(epoch, batch)
        if found is not None:
            self._ahead = self._iterator.get_next_as_optional()
            self._position = (epoch, batch + 1)
        return found

    def run(self, epoch: int, batch: int, options: tf.Tensor) -> Values:
        if self.next_batch(epoch, batch) is None:
            return np.zeros((0, 0))
        values, self._ahead = self._run(self._iterator, self._ahead, options)
        found: Values = values.numpy()
        self._position = (epoch, batch + len(found))
        return found

    def restart(self) -> None:
        self._position = None

    def _run_batches(self, iterator: Any, ahead: Any, options: tf.Tensor) -> tuple[tf.Tensor, Any]:
        count = tf.size(options)
        spec = tf.OptionalSpec(iterator.element_spec)

        def next_batch(k: tf.Tensor, found: tf.TensorArray, coded: tf.Tensor) -> Any:
            batch = spec._from_tensor_list([coded]).get_value()
            with tf.device(HOST):
                indices = tf.range(tf.cast(samples_in(batch), tf.int64))
            assert self._on_batch is not None
            values = self._on_batch(indices, partial(rows_on_host, batch), options[k])
            (coded,) = spec._to_tensor_list(iterator.get_next_as_optional())
            return k + 1, found.write(k, tf.cast(values, tf.float64)), coded

        def goes_on(k: tf.Tensor, found: tf.TensorArray, coded: tf.Tensor) -> tf.Tensor:
            return tf.logical_and(k < count, spec._from_tensor_list([coded]).has_value())

        (coded,) = spec._to_tensor_list(ahead)
        start = (tf.constant(0), tf.TensorArray(tf.float64, size=count), coded)
        done, found, coded = tf.while_loop(goes_on, next_batch, start)
        return found.gather(tf.range(done)), spec._from_tensor_list([coded])


def global_batch(order: tf.Tensor, number: tf.Tensor, size: int) -> tf.Tensor:
    """`engine.training.sample_order.global_batch`, in a graph."""
    return order[number * size : (number + 1) * size]
