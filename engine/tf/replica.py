"""The computation of one replica: loss, gradients and metrics of its local batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from engine.runs.checkpoints.checkpoint_files import Position
from engine.spec.run_spec import RunSpec
from engine.tf.batch_norm import RunningStatistics
from engine.tf.graph import HOST, graph
from engine.tf.optimizer_step import OptimizerStep
from engine.tf.random_streams import RandomStreams
from engine.tf.recipe.objective import Loss, Objective
from engine.tf.samples.batch_stream import DataSet, batches_of
from engine.tf.samples.data import Batch
from engine.tf.samples.local_batch import Gradients, Share, accumulate, local_batch
from engine.training import run_length
from engine.training.protocols import UNKNOWN

BatchGradients = Callable[["Replica", Batch, Share], Gradients]
"""See `engine.tf.parallel.Parallel.batch_gradients`."""


class Replica:
    """The recipe's model, data and objective; one object stands for all replicas of a process.

    `gradients`, `weighted` and `metric_sums` are called in a graph, for one replica.
    """

    def __init__(
        self,
        spec: RunSpec,
        replicas: int,
        model: keras.Model,
        data: tuple[DataSet, Mapping[str, DataSet]],
        objective: Objective,
        optimizer_step: OptimizerStep,
        streams: RandomStreams,
        statistics: RunningStatistics,
        batch_gradients: BatchGradients,
    ) -> None:
        """`data` are training and validation samples."""
        self.spec = spec
        self.replicas = replicas
        self.model = model
        self.variables = model.trainable_variables
        self.train, self.validation = data
        self.objective = objective
        self.optimizer_step = optimizer_step
        self.optimizer = optimizer_step.optimizer
        self.streams = streams
        self.statistics = statistics
        self.local_batches = replicas * spec.accumulation
        """The number of local batches of a global batch."""

        self.metric_names: list[str] = []
        """The names of the results of `metric_sums` but the last, known after it was traced."""

        self.parameters = int(sum(np.prod(variable.shape) for variable in self.variables))
        self.steps_per_epoch = batches_of(self.train, spec.batch_size)
        self.validation_batches = {
            name: batches_of(data, spec.batch_size) for name, data in self.validation.items()
        }
        """By the name of the data set; 0: its number of batches is not known."""

        lengths = self.validation_batches.values()
        self.all_validation_batches = sum(lengths) if all(lengths) else UNKNOWN
        gradients = partial(batch_gradients, self)
        self._batch_gradients = graph(gradients, jit_compile=True) if spec.compile else gradients

    def learning_rates(self, position: Position, count: int) -> tf.Tensor:
        """Return the learning rates of the next `count` steps: float32, of shape (count,)."""
        total_steps = run_length.total_steps(self.spec, position, self.steps_per_epoch)
        return self.optimizer_step.learning_rates(position.step, count, total_steps)

    def gradients(
        self, global_batch: tf.Tensor, fetch: Callable[[tf.Tensor], Batch], replica: Any
    ) -> Gradients:
        """Return one replica's part of the figures of a global batch, and of its gradients.

        `global_batch` holds indices of samples, int64, of shape (samples,), and `fetch(indices)`
        returns samples. The gradients are summed over the replica's local batches, and have the
        optimizer's loss scale. `figures` takes the sum of both over all replicas.
        """

        def accumulation_step(step: Any) -> Gradients:
            with tf.device(HOST):
                part = step * self.replicas + replica
            indices, share = self.local_batch(global_batch, part, self.local_batches)
            return self._batch_gradients(fetch(indices), share)

        values = len(self.objective.names) + self.objective.is_weighted
        return accumulate(accumulation_step, self.spec.accumulation, values, self.variables)

    def weighted(self, loss: Loss, share: Share) -> tuple[tf.Tensor, tf.Tensor]:
        """Return what a local batch adds to the figures of its global batch, and to the loss.

        The first is float32, of shape (values,); the second is the scalar that is minimised.
        """
        factor = share.factor(loss.weight)
        values = [loss.figures[name] * factor for name in self.objective.names]
        minimised = values[0]
        if loss.penalties is not None:  # the factors add up to 1: it counts once
            minimised += loss.penalties * factor
            if self.objective.shows_penalties:
                values[0] = minimised
        if self.objective.is_weighted:
            values.append(factor)
        return tf.stack(values), minimised

    def figures(self, sums: Gradients) -> tuple[dict[str, tf.Tensor], list[tf.Tensor]]:
        """Return figures and gradients of a global batch; `sums` are those over all replicas."""
        values, gradients = sums
        if self.objective.is_weighted:
            weight = values[-1]
            values = values / weight
            gradients = [gradient / tf.cast(weight, gradient.dtype) for gradient in gradients]
        return dict(zip(self.objective.names, tf.unstack(values), strict=False)), gradients

    def metric_sums(
        self, global_batch: tf.Tensor, fetch: Callable[[tf.Tensor], Batch], replica: Any
    ) -> tf.Tensor:
        """Return loss and metrics of a replica's validation samples, each times their weight.

        Float64, in the order of `metric_names`; the last one is the weight.
        """
        indices, share = self.local_batch(global_batch, replica, self.replicas)
        figures, weight = self.objective.validation_figures(self.model, fetch(indices), share)
        self.metric_names = list(figures)
        factor = share.count if weight is None else tf.where(share.count > 0, weight, 0.0)
        values = [tf.cast(value, tf.float64) for value in [*figures.values(), 1.0]]
        return tf.stack(values) * tf.cast(factor, tf.float64)

    def of_batch(self, sums: tf.Tensor, global_batch: tf.Tensor) -> tf.Tensor:
        """Return the `metric_sums` of a batch, which are summed over all replicas, for the mean.

        Keras takes the mean over the places of a batch that a mask leaves, and then over samples.
        """
        if self.objective.weighs_by_batch or not self.objective.is_weighted:
            return sums
        return sums / sums[-1] * tf.cast(tf.size(global_batch), tf.float64)

    def local_batch(self, batch: tf.Tensor, part: Any, parts: int) -> tuple[tf.Tensor, Share]:
        """Return the samples of part number `part` of a global batch, and its share."""
        indices, count = local_batch(batch, part, parts)
        with tf.device(HOST):
            total = tf.cast(tf.size(batch), tf.float32)
            return indices, Share(tf.cast(count, tf.float32), total, parts > 1)
