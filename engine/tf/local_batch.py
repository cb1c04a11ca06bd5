"""The parts in which a global batch is computed: their sizes, their sum, their precision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

Gradients = tuple[tf.Tensor, list[tf.Tensor]]
"""A loss, and its gradients in the order of the variables."""


def share(whole: tf.Tensor, part: Any, parts: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Return a part of a global batch, and its number of samples, inside a graph.

    The graph form of `sample_order.replica_samples`.

    A part without a sample gets one that counts for nothing: its graph is the same.
    """
    mine = whole[part::parts]
    count = tf.size(mine)
    return tf.cond(count > 0, lambda: mine, lambda: whole[:1]), count


def summed(
    part: Callable[[tf.Tensor], Gradients], steps: int, variables: Sequence[keras.Variable]
) -> Gradients:
    """`part(0)` + ... + `part(steps - 1)`, one after the other, so that they share their memory."""
    if steps == 1:
        return part(tf.constant(0))

    def add(step: tf.Tensor, *sums: tf.Tensor) -> list[tf.Tensor]:
        loss, gradients = part(step)
        added = [one + more for one, more in zip(sums, [loss, *gradients], strict=True)]
        return [step + 1, *added]

    nothing = [tf.constant(0.0), *(tf.zeros(v.shape, v.dtype) for v in variables)]
    _, loss, *gradients = tf.while_loop(
        lambda step, *sums: step < steps, add, [tf.constant(0), *nothing], parallel_iterations=1
    )
    return loss, gradients


def in_full(outputs: Any) -> Any:
    """What a model gave, in float32 where it computes in half precision: losses need it."""
    return tf.nest.map_structure(_in_full, outputs)


def _in_full(output: Any) -> Any:
    half = output.dtype in (tf.float16, tf.bfloat16)
    return tf.cast(output, tf.float32) if half else output
