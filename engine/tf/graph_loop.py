"""Our own loop over steps: K steps inside one `tf.function` call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from engine.runs.checkpoint_files import Position
from engine.tf.graph import graph
from engine.tf.replica import Replica
from engine.training import sample_order

if TYPE_CHECKING:
    from engine.tf.parallel import Parallel


class GraphLoop:
    """See `engine.tf.parallel.StepLoop`; a `Parallel` computes gradients and sums."""

    def __init__(self, parallel: Parallel, replica: Replica) -> None:
        self._parallel = parallel
        self._replica = replica
        self._order: tuple[int, tf.Tensor] = (-1, tf.constant([], tf.int64))
        self._all_validation = tf.range(len(replica.validation), dtype=tf.int64)
        self._step_metric_names: list[str] = []
        indices = tf.TensorSpec((None,), tf.int64)
        counter = tf.TensorSpec((), tf.int64)
        rates = tf.TensorSpec((None,), tf.float32)
        # The chunk length is a tensor, so one trace serves all lengths.
        self._steps_graph = graph(self._run_steps, input_signature=[indices, counter, rates])
        self._batches_graph = graph(self._sum_batches, input_signature=[indices, counter, counter])

    def run_steps(self, position: Position, count: int) -> dict[str, list[float]]:
        replica = self._replica
        if self._order[0] != position.epoch:
            order = sample_order.epoch_order(len(replica.train), replica.spec.seed, position.epoch)
            self._order = (position.epoch, tf.constant(order))
        rates = replica.learning_rates(position, count)
        first = tf.constant(position.batch, tf.int64)
        values = self._steps_graph(self._order[1], first, rates).numpy()
        return dict(zip(self._step_metric_names, values.T.tolist(), strict=True))

    def validation_sums(self, batch: int, count: int) -> npt.NDArray[np.float64]:
        first, length = tf.constant(batch, tf.int64), tf.constant(count, tf.int64)
        return np.asarray(self._batches_graph(self._all_validation, first, length))

    def close(self) -> None:
        return

    def _run_steps(self, order: tf.Tensor, first: tf.Tensor, rates: tf.Tensor) -> tf.Tensor:
        """Do one step for each learning rate; return the metrics, of shape (steps, metrics)."""
        count = tf.size(rates)

        def next_step(k: tf.Tensor, rows: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
            batch = global_batch(order, first + tf.cast(k, tf.int64), self._replica.spec.batch_size)
            return k + 1, rows.write(k, self._step(batch, rates[k]))

        start = (tf.constant(0), tf.TensorArray(tf.float32, size=count))
        _, rows = tf.while_loop(lambda k, rows: k < count, next_step, start)
        return rows.stack()

    def _step(self, batch: tf.Tensor, rate: tf.Tensor) -> tf.Tensor:
        """Do one optimizer step over a global batch; return its metrics, of shape (metrics,)."""
        replica = self._replica
        skips = replica.spec.on_nan == "skip"
        before = replica.statistics.snapshot() if skips else []
        loss, gradients = self._parallel.step_gradients(replica, batch)
        finite = replica.optimizer_step.is_finite(loss, gradients) if skips else None
        metrics = {"loss": loss} | replica.optimizer_step.apply(gradients, rate, finite)
        if finite is not None:
            replica.statistics.restore_unless(finite, before)
        self._step_metric_names = list(metrics)
        return tf.stack(list(metrics.values()))

    def _sum_batches(self, order: tf.Tensor, first: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
        """Return loss and metrics, summed over `count` validation batches from `first` on."""

        def sums_of(number: tf.Tensor) -> tf.Tensor:
            batch = global_batch(order, number, self._replica.spec.batch_size)
            return self._parallel.batch_sums(self._replica, batch)

        def next_step(k: tf.Tensor, sums: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return k + 1, sums + sums_of(first + k)

        start = (tf.constant(1, tf.int64), sums_of(first))
        return tf.while_loop(lambda k, sums: k < count, next_step, start)[1]


def global_batch(order: tf.Tensor, number: tf.Tensor, size: int) -> tf.Tensor:
    """`engine.training.sample_order.global_batch`, in a graph."""
    return order[number * size : (number + 1) * size]
