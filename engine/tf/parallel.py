"""The part of one process in a training step (`Parallel`), and the loop over steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from engine.runs.checkpoint_files import Position
from engine.tf.graph_loop import GraphLoop
from engine.tf.local_batch import Gradients
from engine.tf.replica import Replica


class StepLoop(Protocol):
    """Does the steps that the training loop asks for. All ranks must call every method."""

    def run_steps(self, position: Position, count: int) -> dict[str, list[float]]:
        """See `engine.training.protocols.Trainer.run_steps`."""

    def validation_sums(self, batch: int, count: int) -> npt.NDArray[np.float64]:
        """Return loss and metrics times samples, summed over `count` batches from `batch` on.

        Float64, in the order of `Replica.metric_names`.
        """

    def close(self) -> None:
        """End the threads of the loop; called once, before `Parallel.close`."""


class Parallel:
    """The replicas of a `tf.distribute.Strategy`, whose gradients are summed by an all-reduce.

    `engine.tf.parallelism` has subclasses for strategies that compute gradients differently, have
    several processes, or have another loop.
    """

    def __init__(self, distribution: tf.distribute.Strategy) -> None:
        self.distribution = distribution

    def make_model(
        self, make: Callable[[], keras.Model], recipe_stages: Callable[..., Any] | None
    ) -> keras.Model:
        """Return the built model of `make()`, with its variables on their devices.

        Called inside `distribution.scope()`. `recipe_stages` is the recipe's function, or None.
        """
        return make()

    def make_loop(self, replica: Replica) -> StepLoop:
        """Return the loop that trains and validates `replica`; all ranks must call it together."""
        return GraphLoop(self, replica)

    def batch_gradients(
        self, replica: Replica, inputs: Any, targets: Any, weight: tf.Tensor
    ) -> Gradients:
        """Return the loss of one local batch times `weight`, and its gradients.

        Called in a graph, for one replica. `inputs` and `targets` have the samples first; `weight`
        is a float32 scalar. The gradients are dense, and scaled as the optimizer scales the loss.
        """
        model = replica.model
        with tf.GradientTape() as tape:
            loss = replica.weighted_loss(model(inputs, training=True), targets, weight)
            total = loss
            if model.losses:  # each local batch adds an equal part of the regularisation
                penalties = [tf.cast(penalty, tf.float32) for penalty in model.losses]
                total += tf.add_n(penalties) / replica.local_batches
            total = replica.optimizer.scale_loss(total)
        gradients = tape.gradient(total, replica.variables)
        # A gradient is None if the loss does not depend on the variable; it may also be sparse.
        dense = [
            tf.zeros(variable.shape, variable.dtype) if g is None else tf.convert_to_tensor(g)
            for g, variable in zip(gradients, replica.variables, strict=True)
        ]
        return loss, dense

    def step_gradients(self, replica: Replica, global_batch: tf.Tensor) -> Gradients:
        """Return the mean loss over a global batch and its gradients, summed over all replicas.

        `global_batch` holds indices of samples, int64, of shape (samples,). Called in a graph,
        outside of `Strategy.run`.
        """

        def step(indices: tf.Tensor) -> Gradients:
            context = tf.distribute.get_replica_context()
            replica.streams.use_global_stream()
            loss, gradients = replica.gradients(indices, context.replica_id_in_sync_group)
            return loss, context.all_reduce("SUM", gradients)

        loss, gradients = self.distribution.run(step, args=(global_batch,))
        # After the all-reduce all replicas have equal gradients; take those of the first one.
        first = [self.distribution.experimental_local_results(g)[0] for g in gradients]
        return self.distribution.reduce("SUM", loss, axis=None), first

    def batch_sums(self, replica: Replica, global_batch: tf.Tensor) -> tf.Tensor:
        """Return loss and metrics of a validation batch, each times the number of samples.

        Float64, of shape (metrics,), summed over all replicas; see `step_gradients`.
        """

        def validate(indices: tf.Tensor) -> tf.Tensor:
            context = tf.distribute.get_replica_context()
            replica.streams.use_global_stream()
            return replica.metric_sums(indices, context.replica_id_in_sync_group)

        sums = self.distribution.run(validate, args=(global_batch,))
        return self.distribution.reduce("SUM", sums, axis=None)

    def agree(self, control_word: tuple[int, int]) -> tuple[int, int]:
        """See `engine.training.protocols.Trainer.agree`. Here there is only one process."""
        return control_word

    def close(self) -> None:
        """Leave the cluster; all ranks must call this last."""
