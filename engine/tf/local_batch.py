"""The local batches of a global batch: their samples, and the sum of their gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

Gradients = tuple[tf.Tensor, list[tf.Tensor]]
"""A loss, and its gradients in the order of the variables."""


def local_batch(global_batch: tf.Tensor, part: Any, parts: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Return part number `part` of `parts` of a global batch, and its number of samples.

    This is `sample_order.replica_samples` in a graph; batches are int64 indices of samples, of
    shape (samples,). An empty part becomes the first sample of the global batch with the number 0,
    so the graph has no special case and the weight is 0.
    """
    indices = global_batch[part::parts]
    count = tf.size(indices)
    return tf.cond(count > 0, lambda: indices, lambda: global_batch[:1]), count


def accumulate(
    gradients: Callable[[tf.Tensor], Gradients], steps: int, variables: Sequence[keras.Variable]
) -> Gradients:
    """Return `gradients(0)` + ... + `gradients(steps - 1)`, computed one after the other.

    So activations need the memory of one accumulation step only.
    """
    if steps == 1:
        return gradients(tf.constant(0))

    def add(step: tf.Tensor, *sums: tf.Tensor) -> list[tf.Tensor]:
        loss, terms = gradients(step)
        added = [one + more for one, more in zip(sums, [loss, *terms], strict=True)]
        return [step + 1, *added]

    zeros = [tf.constant(0.0), *(tf.zeros(v.shape, v.dtype) for v in variables)]
    _, loss, *total = tf.while_loop(
        lambda step, *sums: step < steps, add, [tf.constant(0), *zeros], parallel_iterations=1
    )
    return loss, total


def in_float32(outputs: Any) -> Any:
    """Return `outputs` (tensors, maybe nested) with half precision cast to float32."""
    half = (tf.float16, tf.bfloat16)
    return tf.nest.map_structure(
        lambda output: tf.cast(output, tf.float32) if output.dtype in half else output, outputs
    )
