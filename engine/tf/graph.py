"""Makes graphs: from the engine's functions without AutoGraph, from the recipe's with it.

AutoGraph rewrites a function's source so that `if` and `for` may depend on a tensor's value. The
functions of this package use `tf.cond` and `tf.while_loop` instead: rewriting them would take most
of the time between the import of TensorFlow and the first step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def graph(function: Callable[..., Any], **options: Any) -> Any:
    """Return the `tf.function` of one of the engine's functions, without AutoGraph."""
    return tf.function(function, autograph=False, **options)


def with_autograph(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of the recipe, rewritten by AutoGraph in the same way as `tf.function`."""
    autograph = tf.__internal__.autograph  # the interface that Keras 2 used for its layers
    converted: Callable[..., Any] = autograph.tf_convert(function, autograph.control_status_ctx())
    return converted
