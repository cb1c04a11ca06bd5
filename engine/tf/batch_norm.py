"""Variables that training changes without a gradient, such as the moving means of BatchNorm.

Every replica updates its own copy, from its local batches. The copy of replica 0 counts, as in
PyTorch's DistributedDataParallel: validation and checkpoints use it on all replicas.
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

    def __init__(self, scope: tf.distribute.Strategy, model: keras.Model) -> None:
        self._scope = scope
        self._moving = moving_variables(model)
        self._has_copies = bool(self._moving) and scope.num_replicas_in_sync > 1
        self._sync = graph(lambda: self._scope.run(self._copy_first))

    def sync_buffers(self) -> None:
        """Copy the values of replica 0 to every replica; all ranks must call it together."""
        if self._has_copies:
            self._sync()

    def snapshot(self) -> Any:
        """Return every replica's values, for `restore_unless`; in a graph, outside of
        `Strategy.run`."""
        return self._scope.run(lambda: [tf.identity(v.value) for v in self._moving])

    def restore_unless(self, keep: tf.Tensor, before: Any) -> None:
        """Give every replica its values of the snapshot `before`, unless `keep` (a boolean scalar)
        is true; called where `snapshot` is."""

        def choose(values: list[tf.Tensor]) -> None:
            for variable, value in zip(self._moving, values, strict=True):
                variable.assign(tf.where(keep, variable.value, value))

        self._scope.run(choose, args=(before,))

    def _copy_first(self) -> None:
        context = tf.distribute.get_replica_context()
        is_first = tf.equal(context.replica_id_in_sync_group, 0)
        # A sum in which the others are 0: a broadcast from replica 0.
        terms = [tf.where(is_first, v.value, tf.zeros_like(v.value)) for v in self._moving]
        for variable, first in zip(self._moving, context.all_reduce("SUM", terms), strict=True):
            variable.assign(first)
