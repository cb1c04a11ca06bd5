"""Keras' random streams, from which dropout and `keras.random` draw, on every replica."""

from __future__ import annotations

import keras
import tensorflow as tf

# Keras offers no public way to the generator behind `keras.random` without a seed.
from keras.src.backend.common.global_state import set_global_attribute
from keras.src.random.seed_generator import GLOBAL_SEED_GENERATOR, global_seed_generator

States = tuple[tuple[tuple[int, int], ...], ...]
"""For every stream, for every replica of a process: the seed, and how many draws were made."""

SEED = "seed_generator_state"
"""The name that Keras gives to the variable of every stream."""


class RandomStreams:
    """The streams of a model and the global one. Each replica draws its own numbers.

    Operations of `tf.random` keep their state inside TensorFlow, where it cannot be saved: a recipe
    whose runs should resume exactly must draw with `keras.random`.
    """

    def __init__(self, scope: tf.distribute.Strategy, model: keras.Model, rank: int) -> None:
        """Call this once `model` is built, and `prepare` before it is made."""
        self._scope = scope
        self._rank = rank
        self._global = global_seed_generator()
        self._states = [v for v in model.variables if v.name == SEED]
        self._states.append(self._global.state)
        self.reseed()

    @staticmethod
    def prepare(seed: int) -> None:
        """Seed everything; call this inside the strategy's scope, before the model is made.

        Otherwise Keras makes its global generator at the first draw, which fails in a graph.
        """
        keras.utils.set_random_seed(seed)
        global_seed_generator()

    def enter_replica(self) -> None:
        """Make `keras.random` draw from the global stream; call this first in a replica's function.

        Keras keeps its global generator per thread, and MirroredStrategy traces every replica in
        its own thread.
        """
        set_global_attribute(GLOBAL_SEED_GENERATOR, self._global)

    def states(self) -> States:
        """Return the state of every stream of this process."""
        return tuple(tuple(map(_numbers, self._copies(stream))) for stream in self._states)

    def restore(self, states: States) -> None:
        """Set the streams to `states`. Replicas that are not in `states` keep theirs."""
        for stream, saved in zip(self._states, states, strict=True):
            for copy, state in zip(self._copies(stream), saved, strict=False):
                copy.assign(state)

    def reseed(self) -> None:
        """Give every replica its own seed, after all got the same one (a new or restored model)."""
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
