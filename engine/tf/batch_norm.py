"""Variables that training changes without a gradient, such as the moving means of BatchNorm.

Every replica updates its own copy from its local batches. Validation and checkpoints use the copy
of replica 0 on all replicas, as in PyTorch's DistributedDataParallel.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from engine.tf.graph import graph
from engine.tf.random_streams import SEED


def moving_variables(model: keras.Model) -> list[keras.Variable]:
    """Return the variables of `model` that training changes without a gradient."""
    return [
        variable
        for variable in model.non_trainable_variables
        if variable.name != SEED and tf.as_dtype(variable.dtype).is_floating
    ]


class RunningStatistics:
    """The moving variables of a model, of which every replica has a copy."""

    def __init__(self, distribution: tf.distribute.Strategy, model: keras.Model) -> None:
        self._distribution = distribution
        self._moving = moving_variables(model)
        self._has_copies = bool(self._moving) and distribution.num_replicas_in_sync > 1
        self._sync = graph(lambda: self._distribution.run(self._broadcast_first))

    def sync_buffers(self) -> None:
        """Copy the values of replica 0 to every replica; all ranks must call it together."""
        if self._has_copies:
            self._sync()

    def snapshot(self) -> Any:
        """Return the values of all replicas; call this in a graph, outside of `Strategy.run`."""
        return self._distribution.run(lambda: [tf.identity(v.value) for v in self._moving])

    def restore_unless(self, is_finite: tf.Tensor, before: Any) -> None:
        """Restore the snapshot `before` if `is_finite` (a boolean scalar) is false.

        Call this in a graph, outside of `Strategy.run`.
        """

        def choose(values: list[tf.Tensor]) -> None:
            for variable, value in zip(self._moving, values, strict=True):
                variable.assign(tf.where(is_finite, variable.value, value))

        self._distribution.run(choose, args=(before,))

    def _broadcast_first(self) -> None:
        context = tf.distribute.get_replica_context()
        is_first = tf.equal(context.replica_id_in_sync_group, 0)
        # A broadcast from replica 0, as a sum to which the other replicas add zeros.
        terms = [tf.where(is_first, v.value, tf.zeros_like(v.value)) for v in self._moving]
        for variable, first in zip(self._moving, context.all_reduce("SUM", terms), strict=True):
            variable.assign(first)
