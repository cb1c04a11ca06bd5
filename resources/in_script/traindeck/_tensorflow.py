"""TensorFlow in this process: the random states that are its own, and how many parameters train.

Imported only when the script has imported TensorFlow.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from typing import Any

from tensorflow.python.eager import context


def parameters(things: Iterable[Any]) -> int:
    """Return the number of parameters that models among `things` train."""
    trained = {
        id(variable): variable
        for thing in things
        if not hasattr(thing, "learning_rate")  # an optimizer
        for variable in getattr(thing, "trainable_variables", ())
    }
    return sum(math.prod(variable.shape) for variable in trained.values())


def random_state() -> dict[str, Any]:
    """Return the states of the generators that Keras and eager operations draw seeds from."""
    state: dict[str, Any] = {}
    keras_generator = _keras_generator()
    if keras_generator is not None:
        state["keras"] = keras_generator.state.numpy().tolist()
    eager = _eager_generator()
    if eager is not None:
        version, words, gauss = eager.getstate()
        state["eager"] = [version, list(words), gauss]
    return state


def set_random_state(state: dict[str, Any]) -> None:
    """Make those generators continue from `state`."""
    keras_generator = _keras_generator()
    if keras_generator is not None and "keras" in state:
        keras_generator.state.assign(state["keras"])
    eager = _eager_generator()
    if eager is not None and "eager" in state:
        version, words, gauss = state["eager"]
        eager.setstate((version, tuple(words), gauss))


def seed_problem() -> str:
    """Return what a resume cannot repeat because TensorFlow has no seed; empty: nothing."""
    if context.global_seed() is not None:
        return ""
    return (
        "TensorFlow has no seed, so the order of shuffled data and what is drawn in graphs "
        "differ after a resume. Call keras.utils.set_random_seed(...) or "
        "tf.random.set_seed(...) at the begin of the script for an exact resume."
    )


def _keras_generator() -> Any:
    """Return the global generator of keras.random, if it was used."""
    state = sys.modules.get("keras.src.backend.common.global_state")
    return None if state is None else state.get_global_attribute("global_seed_generator")


def _eager_generator() -> Any:
    """Return what the seeds of eager random operations are drawn from."""
    return getattr(context.context(), "_rng", None)
