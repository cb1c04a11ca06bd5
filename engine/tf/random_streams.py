"""The random streams of Keras (for dropout and `keras.random`), with one state per replica."""

from __future__ import annotations

import keras
import tensorflow as tf

# Keras has no public access to its global generator.
from keras.src.backend.common.global_state import set_global_attribute
from keras.src.random.seed_generator import GLOBAL_SEED_GENERATOR, global_seed_generator

States = tuple[tuple[tuple[int, int], ...], ...]
"""For each stream and each replica of a process: the seed and the number of draws."""

SEED = "seed_generator_state"
"""The name that Keras gives to the variable of every stream."""


class RandomStreams:
    """The streams of a model, and the global stream. Each replica draws different numbers.

    Operations of `tf.random` keep their state inside TensorFlow, where it cannot be saved: a recipe
    whose runs should resume exactly must draw with `keras.random`.
    """

    def __init__(self, distribution: tf.distribute.Strategy, model: keras.Model, rank: int) -> None:
        """Call `prepare` before `model` is made, and this after it is built."""
        self._distribution = distribution
        self._rank = rank
        self._global = global_seed_generator()
        self._states = [v for v in model.variables if v.name == SEED]
        self._states.append(self._global.state)
        self.reseed()

    @staticmethod
    def prepare(seed: int) -> None:
        """Seed all generators; call this inside the scope of TensorFlow's strategy.

        It also makes Keras' global generator, which Keras cannot make later, in a graph.
        """
        keras.utils.set_random_seed(seed)
        global_seed_generator()

    def use_global_stream(self) -> None:
        """Make `keras.random` draw from the global stream; call this first in a replica's function.

        Keras keeps its global generator per thread, and MirroredStrategy traces every replica in
        its own thread.
        """
        set_global_attribute(GLOBAL_SEED_GENERATOR, self._global)

    def states(self) -> States:
        """Return the state of every stream of this process."""
        return tuple(
            tuple(map(_seed_and_draws, self._replica_copies(stream))) for stream in self._states
        )

    def restore(self, states: States) -> None:
        """Set the streams to `states`. Replicas that are not in `states` keep theirs."""
        for stream, saved in zip(self._states, states, strict=True):
            for copy, state in zip(self._replica_copies(stream), saved, strict=False):
                copy.assign(state)

    def reseed(self) -> None:
        """Give each replica its own seed; call this after all replicas got the same one."""
        for stream in self._states:
            copies = self._replica_copies(stream)
            seed, drawn = _seed_and_draws(copies[0])
            for replica, copy in enumerate(copies, start=self._rank * len(copies)):
                copy.assign((seed + replica, drawn))

    def _replica_copies(self, stream: keras.Variable) -> tuple[tf.Variable, ...]:
        return tuple(self._distribution.experimental_local_results(stream.value))


def _seed_and_draws(copy: tf.Variable) -> tuple[int, int]:
    seed, drawn = copy.numpy().tolist()
    return seed, drawn
