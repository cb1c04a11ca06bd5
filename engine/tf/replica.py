"""The computation of one replica: loss, gradients and metrics of its local batches."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from engine.runs.checkpoint_files import Position
from engine.spec.run_spec import RunSpec
from engine.tf.batch_norm import RunningStatistics
from engine.tf.data import ArraySamples
from engine.tf.graph import graph
from engine.tf.local_batch import Gradients, accumulate, in_float32, local_batch
from engine.tf.optimizer_step import OptimizerStep
from engine.tf.random_streams import RandomStreams
from engine.training import sample_order

BatchGradients = Callable[["Replica", Any, Any, tf.Tensor], Gradients]
"""See `engine.tf.parallel.Parallel.batch_gradients`."""


class Replica:
    """The recipe's model, data and objective; one object stands for all replicas of a process.

    `gradients`, `metric_sums`, `metric_means` and `weighted_loss` are called in a graph, for one
    replica.
    """

    def __init__(
        self,
        spec: RunSpec,
        replicas: int,
        model: keras.Model,
        data: tuple[ArraySamples, ArraySamples],
        objective: tuple[Callable[..., Any], Callable[..., Any]],
        optimizer_step: OptimizerStep,
        streams: RandomStreams,
        statistics: RunningStatistics,
        batch_gradients: BatchGradients,
    ) -> None:
        """`data` are training and validation samples; `objective` is loss and metrics."""
        self.spec = spec
        self.replicas = replicas
        self.model = model
        self.variables = model.trainable_variables
        self.train, self.validation = data
        self.optimizer_step = optimizer_step
        self.optimizer = optimizer_step.optimizer
        self.streams = streams
        self.statistics = statistics
        self.local_batches = replicas * spec.accumulation
        """The number of local batches of a global batch."""

        self.metric_names: list[str] = []
        """The names of the results of `metric_means`, known after it was traced."""

        self.parameters = int(sum(np.prod(variable.shape) for variable in self.variables))
        self.steps_per_epoch = sample_order.batches_per_epoch(len(self.train), spec.batch_size)
        self.validation_batches = sample_order.batches_per_epoch(
            len(self.validation), spec.batch_size
        )
        self._loss, self._metrics = objective
        gradients = partial(batch_gradients, self)
        self._batch_gradients = graph(gradients, jit_compile=True) if spec.compile else gradients

    def learning_rates(self, position: Position, count: int) -> tf.Tensor:
        """Return the learning rates of the next `count` steps: float32, of shape (count,)."""
        total_steps = position.total_steps(self.steps_per_epoch, self.spec.epochs)
        return self.optimizer_step.learning_rates(position.step, count, total_steps)

    def gradients(
        self,
        global_batch: tf.Tensor,
        replica: Any,
        fetch: Callable[[tf.Tensor], tuple[Any, Any]] | None = None,
    ) -> Gradients:
        """Return one replica's part of the mean loss over a global batch, and its gradients.

        `global_batch` holds indices of samples, int64, of shape (samples,). `fetch(indices)`
        returns inputs and targets, by default of the training data. The gradients are summed over
        the replica's local batches, and have the optimizer's loss scale.
        """
        fetch = fetch or self.train.batch

        def accumulation_step(step: Any) -> Gradients:
            part = step * self.replicas + replica
            indices, count = local_batch(global_batch, part, self.local_batches)
            return self._batch_gradients(*fetch(indices), fraction(count, global_batch))

        return accumulate(accumulation_step, self.spec.accumulation, self.variables)

    def weighted_loss(self, outputs: Any, targets: Any, weight: tf.Tensor) -> tf.Tensor:
        """Return the part of a local batch in the mean loss over the global batch: float32 scalar.

        `weight` is the local batch's fraction of the samples, so the sum over all local batches is
        the mean over the global batch, also when their sizes differ.
        """
        loss = self._loss(in_float32(outputs), targets)
        return tf.cast(tf.reduce_mean(loss), tf.float32) * weight

    def metric_sums(self, global_batch: tf.Tensor, replica: Any) -> tf.Tensor:
        """Return loss and metrics of a replica's validation samples, each times their number."""
        indices, count = local_batch(global_batch, replica, self.replicas)
        return self.metric_means(*self.validation.batch(indices)) * tf.cast(count, tf.float64)

    def metric_means(self, inputs: Any, targets: Any) -> tf.Tensor:
        """Return loss and metrics of some samples: float64, in the order of `metric_names`."""
        outputs = in_float32(self.model(inputs, training=False))
        values = {"loss": tf.reduce_mean(self._loss(outputs, targets))}
        values |= self._metrics(outputs, targets)
        self.metric_names = list(values)
        return tf.stack([tf.cast(value, tf.float64) for value in values.values()])


def fraction(count: tf.Tensor, global_batch: tf.Tensor) -> tf.Tensor:
    """Return `count` divided by the number of samples of a global batch: a float32 scalar."""
    return tf.cast(count, tf.float32) / tf.cast(tf.size(global_batch), tf.float32)
