"""What a model gathers beside its weights, such as the running statistics of BatchNorm.

Every replica gathers its own, from its share of the batches. Those of replica 0 are the ones that
count, as in PyTorch's DistributedDataParallel: validation and checkpoints use them everywhere.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from engine.tf.graph import graph
from engine.tf.random_streams import SEED


def statistics(model: keras.Model) -> list[keras.Variable]:
    """The variables of `model` that training changes without a gradient."""
    return [
        variable
        for variable in model.non_trainable_variables
        if variable.name != SEED and tf.as_dtype(variable.dtype).is_floating
    ]


class Statistics:
    """The statistics of a model whose replicas have one copy each."""

    def __init__(self, scope: tf.distribute.Strategy, model: keras.Model) -> None:
        self._scope = scope
        self._gathered = statistics(model)
        self._variables = self._gathered if scope.num_replicas_in_sync > 1 else []
        self._align = graph(lambda: self._scope.run(self._take_the_first))

    def sync_buffers(self) -> None:
        """Give every replica those of replica 0; all ranks together."""
        if self._variables:
            self._align()

    def now(self) -> Any:
        """What every replica has, for `take_back`; in a graph, outside `Strategy.run`."""
        return self._scope.run(lambda: [tf.identity(v.value) for v in self._gathered])

    def take_back(self, before: Any, *, unless: tf.Tensor) -> None:
        """Give every replica what `now` gave, unless that is true."""

        def choose(values: list[tf.Tensor]) -> None:
            for variable, value in zip(self._gathered, values, strict=True):
                variable.assign(tf.where(unless, variable.value, value))

        self._scope.run(choose, args=(before,))

    def _take_the_first(self) -> None:
        context = tf.distribute.get_replica_context()
        counts = tf.equal(context.replica_id_in_sync_group, 0)
        own = [tf.where(counts, v.value, tf.zeros_like(v.value)) for v in self._variables]
        for variable, first in zip(self._variables, context.all_reduce("SUM", own), strict=True):
            variable.assign(first)
