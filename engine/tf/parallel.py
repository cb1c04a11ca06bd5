"""The part of one process in a training step (`Parallel`), and the loop over steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from engine.runs.checkpoints.checkpoint_files import Position
from engine.tf.graph_loop import GraphLoop
from engine.tf.recipe.objective import Objective
from engine.tf.replica import Replica
from engine.tf.samples.data import Batch
from engine.tf.samples.local_batch import Gradients, Share
from engine.tf.samples.reader import Fetch


class StepLoop(Protocol):
    """Does the steps that the training loop asks for. All ranks must call every method."""

    def run_steps(self, position: Position, count: int) -> dict[str, list[float]]:
        """See `engine.training.protocols.Trainer.run_steps`."""

    def validation_sums(self, name: str, batch: int, count: int) -> list[npt.NDArray[np.float64]]:
        """Return loss and metrics times weight, for each of `count` batches from `batch` on.

        Each is float64, in the order of `Replica.metric_names`; the last number is the weight.
        `name` is one of `Replica.validation`. There are fewer batches if the data end before.
        """

    @property
    def sizes(self) -> list[float]:
        """The numbers of samples of the steps in the last `run_steps`."""

    @property
    def epoch_ended(self) -> bool:
        """Whether the epoch is known to have no more batches."""

    def metric_results(self) -> dict[str, float]:
        """Return the metrics that have a state, as they are now."""

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

    def as_written(self, model: keras.Model) -> keras.Model:
        """Return the recipe's own model in the result of `make_model`."""
        return model

    def check(self, objective: Objective) -> None:
        """Raise TrainingFailed for an objective that this strategy cannot compute."""

    def make_loop(self, replica: Replica) -> StepLoop:
        """Return the loop that trains and validates `replica`; all ranks must call it together."""
        return GraphLoop(self, replica)

    def batch_gradients(self, replica: Replica, batch: Batch, share: Share) -> Gradients:
        """Return what one local batch adds to the values of its global batch, and its gradients.

        Called in a graph, for one replica; see `Replica.weighted`. The gradients are dense, and
        scaled as the optimizer scales the loss.
        """
        with tf.GradientTape() as tape:
            found = replica.objective.training_loss(replica.model, batch, share)
            values, minimised = replica.weighted(found, share)
            total = replica.optimizer.scale_loss(minimised)
        gradients = tape.gradient(total, replica.variables)
        # A gradient is None if the loss does not depend on the variable; it may also be sparse.
        dense = [
            tf.zeros(variable.shape, variable.dtype) if g is None else tf.convert_to_tensor(g)
            for g, variable in zip(gradients, replica.variables, strict=True)
        ]
        return values, dense

    def step_gradients(self, replica: Replica, global_batch: tf.Tensor, fetch: Fetch) -> Gradients:
        """Return values of a global batch and its gradients, summed over all replicas.

        See `Replica.gradients`. `global_batch` holds indices of samples, int64, of shape
        (samples,). Called in a graph, outside of `Strategy.run`.
        """

        def step(indices: tf.Tensor) -> Gradients:
            context = tf.distribute.get_replica_context()
            replica.streams.use_global_stream()
            number = context.replica_id_in_sync_group
            values, gradients = replica.gradients(indices, fetch, number)
            return values, context.all_reduce("SUM", gradients)

        values, gradients = self.distribution.run(step, args=(global_batch,))
        # After the all-reduce all replicas have equal gradients; take those of the first one.
        first = [self.distribution.experimental_local_results(g)[0] for g in gradients]
        return self.distribution.reduce("SUM", values, axis=None), first

    def batch_sums(self, replica: Replica, global_batch: tf.Tensor, fetch: Fetch) -> tf.Tensor:
        """Return loss and metrics of a batch in validation, each times its weight.

        Float64, summed over all replicas; see `Replica.metric_sums` and `step_gradients`.
        """

        def validate(indices: tf.Tensor) -> tf.Tensor:
            context = tf.distribute.get_replica_context()
            replica.streams.use_global_stream()
            number = context.replica_id_in_sync_group
            return replica.metric_sums(indices, fetch, number)

        sums = self.distribution.run(validate, args=(global_batch,))
        return self.distribution.reduce("SUM", sums, axis=None)

    def note_validated(self, batches: int) -> None:
        """Tell ranks that compute nothing how many batches were validated."""

    def agree(self, control_word: tuple[int, int]) -> tuple[int, int]:
        """See `engine.training.protocols.Trainer.agree`. Here there is only one process."""
        return control_word

    def close(self) -> None:
        """Leave the cluster; all ranks must call this last."""
