"""The local batches into which a global batch is divided: their samples, the sum of their
gradients, their precision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

Gradients = tuple[tf.Tensor, list[tf.Tensor]]
"""A loss, and its gradients in the order of the variables."""


def local_batch(global_batch: tf.Tensor, part: Any, parts: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Return part number `part` of `parts` of a global batch, and how many samples it has.

    The graph form of `sample_order.replica_samples`: both are int64 indices, of shape (samples,).
    A part without samples gets the first one of the global batch and the number 0, so that the
    graph stays the same and the weight is 0.
    """
    indices = global_batch[part::parts]
    count = tf.size(indices)
    return tf.cond(count > 0, lambda: indices, lambda: global_batch[:1]), count


def accumulate(
    gradients: Callable[[tf.Tensor], Gradients], steps: int, variables: Sequence[keras.Variable]
) -> Gradients:
    """Return `gradients(0)` + ... + `gradients(steps - 1)`, each computed after the one before.

    So the memory for activations is that of one accumulation step.
    """
    if steps == 1:
        return gradients(tf.constant(0))

    def add(step: tf.Tensor, *sums: tf.Tensor) -> list[tf.Tensor]:
        loss, found = gradients(step)
        added = [one + more for one, more in zip(sums, [loss, *found], strict=True)]
        return [step + 1, *added]

    zeros = [tf.constant(0.0), *(tf.zeros(v.shape, v.dtype) for v in variables)]
    _, loss, *total = tf.while_loop(
        lambda step, *sums: step < steps, add, [tf.constant(0), *zeros], parallel_iterations=1
    )
    return loss, total


def in_float32(outputs: Any) -> Any:
    """Return a nesting of tensors, those in half precision cast to float32 for the loss."""
    half = (tf.float16, tf.bfloat16)
    return tf.nest.map_structure(
        lambda output: tf.cast(output, tf.float32) if output.dtype in half else output, outputs
    )
