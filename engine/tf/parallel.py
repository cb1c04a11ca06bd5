"""How one process takes part in a step: `Parallel`, and whose loop does the steps."""

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
    """What does the steps that the worker's loop asks for. All ranks call every method."""

    def run_steps(self, position: Position, count: int) -> dict[str, list[float]]:
        """See `engine.training.protocols.Trainer.run_steps`."""

    def validation_sums(self, batch: int, count: int) -> npt.NDArray[np.float64]:
        """Loss and metrics, each times the number of samples, summed over `count` batches.

        The order is that of `Replica.metric_names`.
        """

    def close(self) -> None:
        """End what still runs; called once, before the ranks leave each other."""


class Parallel:
    """The replicas of a `tf.distribute.Strategy`, whose gradients are summed by an all-reduce.

    A strategy whose gradients come from elsewhere, whose ranks are several processes, or whose
    steps are done by another loop, has a subclass in `engine.tf.parallelism`.
    """

    def __init__(self, scope: tf.distribute.Strategy) -> None:
        self.scope = scope

    def make_model(
        self, make: Callable[[], keras.Model], recipe_stages: Callable[..., Any] | None
    ) -> keras.Model:
        """Return the built model that `make` makes, its variables placed on their devices.

        Called inside `scope.scope()`. `recipe_stages` is the recipe's `stages`, if it has one.
        """
        return make()

    def make_loop(self, replica: Replica) -> StepLoop:
        """Return the loop that trains and validates `replica`; all ranks call it together."""
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
            if model.losses:  # regularisation has no samples: each local batch adds its part
                penalties = [tf.cast(penalty, tf.float32) for penalty in model.losses]
                total += tf.add_n(penalties) / replica.local_batches
            total = replica.optimizer.scale_loss(total)
        gradients = tape.gradient(total, replica.variables)
        # None: the loss does not depend on this variable. Other gradients may be sparse.
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
            replica.streams.enter_replica()
            loss, gradients = replica.gradients(indices, context.replica_id_in_sync_group)
            return loss, context.all_reduce("SUM", gradients)

        loss, gradients = self.scope.run(step, args=(global_batch,))
        # After the all-reduce every replica has the same gradients; the update takes any of them.
        first = [self.scope.experimental_local_results(gradient)[0] for gradient in gradients]
        return self.scope.reduce("SUM", loss, axis=None), first

    def batch_sums(self, replica: Replica, global_batch: tf.Tensor) -> tf.Tensor:
        """Return loss and metrics of a validation batch, each times the number of samples.

        Float64, of shape (figures,), summed over all replicas; see `step_gradients`.
        """

        def validate(indices: tf.Tensor) -> tf.Tensor:
            context = tf.distribute.get_replica_context()
            replica.streams.enter_replica()
            return replica.sums(indices, context.replica_id_in_sync_group)

        return self.scope.reduce("SUM", self.scope.run(validate, args=(global_batch,)), axis=None)

    def agree(self, control_word: tuple[int, int]) -> tuple[int, int]:
        """See `engine.training.protocols.Trainer.agree`. Here there is only one process."""
        return control_word

    def close(self) -> None:
        """Leave the other ranks; all ranks call it, last."""
