"""Keras' random streams: where dropout and `keras.random` draw from, on every replica."""

from __future__ import annotations

import keras
import tensorflow as tf

# Keras offers no public way to the generator behind `keras.random` without a seed.
from keras.src.backend.common.global_state import set_global_attribute
from keras.src.random.seed_generator import GLOBAL_SEED_GENERATOR, global_seed_generator

States = tuple[tuple[tuple[int, int], ...], ...]
"""For every stream, for every replica of a process: two numbers that decide what comes next."""

SEED = "seed_generator_state"
"""What Keras calls the variable of every stream."""


class Streams:
    """The streams of a model and the global one. Each replica draws its own numbers.

    Operations of `tf.random` keep their state inside TensorFlow, out of reach: a recipe whose runs
    should resume exactly draws with `keras.random`.
    """

    def __init__(self, scope: tf.distribute.Strategy, model: keras.Model, rank: int) -> None:
        """Call this once `model` is built, and `prepare` before."""
        self._scope = scope
        self._rank = rank
        self._global = global_seed_generator()
        self._states = [v for v in model.variables if v.name == SEED]
        self._states.append(self._global.state)
        self._spread()

    @staticmethod
    def prepare(seed: int) -> None:
        """Seed everything; call this inside the strategy's scope, before the model is made.

        Keras would make its global generator when it is first used. In a traced step that fails.
        """
        keras.utils.set_random_seed(seed)
        global_seed_generator()

    def enter_replica(self) -> None:
        """Make `keras.random` draw from the global stream; call this first in a replica's function.

        Keras knows its global generator per thread, and MirroredStrategy traces every replica in a
        thread of its own.
        """
        set_global_attribute(GLOBAL_SEED_GENERATOR, self._global)

    def states(self) -> States:
        """Where every stream of this process is."""
        return tuple(tuple(map(_numbers, self._copies(stream))) for stream in self._states)

    def go_to(self, states: States) -> None:
        """Take back what `states` gave. A replica that was not there then keeps a new stream."""
        for stream, saved in zip(self._states, states, strict=True):
            for copy, state in zip(self._copies(stream), saved, strict=False):
                copy.assign(state)

    def start_anew(self) -> None:
        """Let the streams of this process differ again, after all replicas were made alike."""
        self._spread()

    def _spread(self) -> None:
        """Let every replica draw other numbers than the first; made alike, they draw alike."""
        for stream in self._states:
            copies = self._copies(stream)
            seed, drawn = _numbers(copies[0])
            for replica, copy in enumerate(copies, start=self._rank * len(copies)):
                copy.assign((seed + replica, drawn))

    def _copies(self, stream: keras.Variable) -> tuple[tf.Variable, ...]:
        copies: tuple[tf.Variable, ...] = self._scope.experimental_local_results(stream.value)
        return copies


def _numbers(copy: tf.Variable) -> tuple[int, int]:
    seed, drawn = copy.numpy().tolist()
    return seed, drawn
