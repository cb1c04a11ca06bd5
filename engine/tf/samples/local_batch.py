"""The local batches of a global batch: their samples, and the sum of their gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from engine.tf.graph import HOST

Gradients = tuple[tf.Tensor, list[tf.Tensor]]
"""Values of a training step, float32 of shape (values,), and gradients by variable."""


class Share(NamedTuple):
    """How much of a global batch a local batch is."""

    count: tf.Tensor
    """Its samples: a float32 scalar. 0: a sample stands in for an empty local batch."""

    total: tf.Tensor
    """The samples of the global batch: a float32 scalar."""

    may_be_empty: bool

    def factor(self, weight: tf.Tensor | None) -> tf.Tensor:
        """Return the factor of its loss in that of the global batch: a float32 scalar.

        Without `weight` it is the fraction of the samples. The factors of given weights do not add
        up to 1: see `Replica.figures`.
        """
        if weight is None:
            return self.count / self.total
        return tf.where(self.count > 0, weight / self.total, 0.0)

    def mean_of_sum(self, value: tf.Tensor) -> tf.Tensor:
        """Return what times `factor(None)` is `value`, a sum over the local batch."""
        return tf.math.divide_no_nan(value * self.total, self.count)


def local_batch(global_batch: tf.Tensor, part: Any, parts: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Return part number `part` of `parts` of a global batch, and its number of samples.

    This is `sample_order.replica_samples` in a graph; batches are int64 indices of samples, of
    shape (samples,). An empty part becomes the first sample of the global batch with the number 0,
    so the graph has no special case and the weight is 0.
    """
    with tf.device(HOST):
        indices = global_batch[part::parts]
        count = tf.size(indices)
        return tf.cond(count > 0, lambda: indices, lambda: global_batch[:1]), count


def accumulate(
    gradients: Callable[[tf.Tensor], Gradients],
    steps: int,
    values: int,
    variables: Sequence[keras.Variable],
) -> Gradients:
    """Return `gradients(0)` + ... + `gradients(steps - 1)`, computed one after the other.

    So activations need the memory of one accumulation step only. Each has that number of `values`.
    """
    if steps == 1:
        return gradients(tf.constant(0))

    def add(step: tf.Tensor, *sums: tf.Tensor) -> list[tf.Tensor]:
        found, terms = gradients(step)
        added = [one + more for one, more in zip(sums, [found, *terms], strict=True)]
        return [step + 1, *added]

    zeros = [tf.zeros((values,)), *(tf.zeros(v.shape, v.dtype) for v in variables)]
    _, found, *total = tf.while_loop(
        lambda step, *sums: step < steps, add, [tf.constant(0), *zeros], parallel_iterations=1
    )
    return found, total


def in_float32(outputs: Any) -> Any:
    """Return `outputs` (tensors, maybe nested) with half precision cast to float32."""
    half = (tf.float16, tf.bfloat16)
    return tf.nest.map_structure(
        lambda output: tf.cast(output, tf.float32) if output.dtype in half else output, outputs
    )
