"""How Python becomes a graph: what is ours as it is written, what is the recipe's by AutoGraph.

AutoGraph writes every function anew that a graph is made of, so that `if` and `for` may ask what
a tensor holds. For the functions of this room, which say `tf.cond` and `tf.while_loop` themselves,
that would be most of the time from the import of TensorFlow to the first step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def graph(function: Callable[..., Any], **options: Any) -> Any:
    """`tf.function` of something of ours."""
    return tf.function(function, autograph=False, **options)


def with_autograph(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the recipe's, as `tf.function` would call it: AutoGraph writes it anew."""
    autograph = tf.__internal__.autograph  # what Keras 2 called its layers by
    converted: Callable[..., Any] = autograph.tf_convert(function, autograph.control_status_ctx())
    return converted
