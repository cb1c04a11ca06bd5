"""Our TensorFlow loop, which keeps every loss, compared to Keras' `fit` and to a bare loop.

`python -m benchmarks.tensorflow_loop [--rounds 15] [--width 256]` trains the same network on
batches of the same data in all ways, in turns in one process, and prints what a step took and the
ratios: wall time, and CPU time of all threads, which other programs disturb less. Ours is the
trainer of `tf/single`, with chunks of steps as long as those of the worker's loop (100 ms);
it is compared to `model.fit` on arrays, with a callback that reads the loss of each batch, and to a
`tf.function` over as many steps that keeps no loss, which is the smallest possible cost.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf

from engine.runs.checkpoints.checkpoint_files import Position
from engine.spec import catalog
from engine.spec.run_spec import RunSpec
from engine.tf.trainer import TfTrainer
from tests.support.tf_session import TfSession

BATCH_SIZE = 64
STEPS = 100
"""Batches of an epoch, which is one round."""

CHUNK = 50
"""Steps that the worker's loop asks for at once when one takes 2 ms."""

FEATURES = 256


def recipe(width: int) -> SimpleNamespace:
    """A perceptron on noise."""

    def model() -> keras.Model:
        return keras.Sequential(
            [
                keras.Input((FEATURES,)),
                keras.layers.Dense(width, activation="relu"),
                keras.layers.Dense(width, activation="relu"),
                keras.layers.Dense(10),
            ]
        )

    def datasets() -> Any:
        random = np.random.RandomState(0)
        inputs = random.randn(STEPS * BATCH_SIZE, FEATURES).astype(np.float32)
        targets = random.randint(0, 10, len(inputs))
        return (inputs, targets), (inputs[:BATCH_SIZE], targets[:BATCH_SIZE])

    def optimizer(parameters: Any, learning_rate: float) -> keras.optimizers.Optimizer:
        return keras.optimizers.SGD(learning_rate)

    return SimpleNamespace(model=model, datasets=datasets, optimizer=optimizer)


Clocks = dict[str, float]
"""Times by kind of clock."""


def clocks() -> Clocks:
    """What the clocks show now."""
    return {"wall": time.perf_counter(), "CPU": time.process_time()}


class Watch(keras.callbacks.Callback):  # type: ignore[misc]
    """The callback of a dashboard: it reads the loss of every batch."""

    def __init__(self) -> None:
        super().__init__()
        self.losses: list[float] = []
        self.marks: list[Clocks] = []

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Keep the loss, and when it came."""
        self.losses.append(float(logs["loss"]))
        self.marks.append(clocks())


def ours(trainer: TfTrainer) -> Clocks:
    """Milliseconds per step of one round."""
    begin = clocks()
    for first in range(0, STEPS, CHUNK):
        losses = trainer.run_steps(Position(0, first, first), CHUNK).read()["loss"]
        assert len(losses) == CHUNK
    return per_step(begin, clocks(), STEPS)


def fit(model: keras.Model, inputs: Any, targets: Any) -> Clocks:
    """Milliseconds per step of one round; what comes before its first batch does not count."""
    watch = Watch()
    model.fit(inputs, targets, batch_size=BATCH_SIZE, verbose=0, callbacks=[watch])
    assert len(watch.losses) == STEPS
    return per_step(watch.marks[0], watch.marks[-1], STEPS - 1)


class Bare:
    """A fast loop written by hand, without any monitoring."""

    def __init__(self, recipe: SimpleNamespace) -> None:
        """Put the data in tensors and build the optimizer."""
        (inputs, targets), _ = recipe.datasets()
        self._inputs, self._targets = tf.constant(inputs), tf.constant(targets)
        self._model = recipe.model()
        self._optimizer = recipe.optimizer(None, 0.01)
        self._optimizer.build(self._model.trainable_variables)
        index = tf.TensorSpec((), tf.int64)
        self._steps = tf.function(
            self._train, input_signature=[tf.TensorSpec((None,), tf.int64), index, index]
        )

    def __call__(self) -> Clocks:
        """Milliseconds per step of one round."""
        order = tf.constant(np.random.permutation(len(self._inputs)))
        begin = clocks()
        for first in range(0, STEPS, CHUNK):
            self._steps(order, first, CHUNK)
        return per_step(begin, clocks(), STEPS)

    def _train(self, order: tf.Tensor, first: tf.Tensor, count: tf.Tensor) -> None:
        variables = self._model.trainable_variables
        for step in tf.range(first, first + count):
            chosen = order[step * BATCH_SIZE : (step + 1) * BATCH_SIZE]
            with tf.GradientTape() as tape:
                outputs = self._model(tf.gather(self._inputs, chosen), training=True)
                targets = tf.gather(self._targets, chosen)
                loss = keras.losses.sparse_categorical_crossentropy(
                    targets, outputs, from_logits=True
                )
                mean = tf.reduce_mean(loss)
            self._optimizer.apply(tape.gradient(mean, variables), variables)


def per_step(begin: Clocks, end: Clocks, steps: int) -> Clocks:
    """Milliseconds per step on each clock."""
    return {kind: (end[kind] - begin[kind]) / steps * 1000 for kind in begin}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--width", type=int, default=256, help="units of the hidden layers")
    options = parser.parse_args()
    given = recipe(options.width)
    spec = RunSpec(
        recipe="digits_keras",
        strategy="tf/single",
        devices=("cpu:0",),
        batch_size=BATCH_SIZE,
        epochs=1,
        learning_rate=0.01,
    )
    session: Any = TfSession(spec, given)
    trainer = TfTrainer(session, catalog.strategy(spec.strategy))  # type: ignore[arg-type]
    (inputs, targets), _ = given.datasets()
    model = given.model()
    model.compile(
        given.optimizer(None, spec.learning_rate),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    measures: dict[str, Callable[[], Clocks]] = {
        "ours": lambda: ours(trainer),
        "fit": lambda: fit(model, inputs, targets),
        "bare": Bare(given),
    }
    steps: dict[str, list[Clocks]] = {name: [] for name in measures}
    for measure in measures.values():
        measure()  # traces the graphs
    for number in range(options.rounds):
        for name in sorted(measures, reverse=bool(number % 2)):
            steps[name].append(measures[name]())
    print(f"{options.rounds} rounds of {STEPS} steps, batch {BATCH_SIZE}, width {options.width}")
    for kind in clocks():
        for name, found in steps.items():
            print(f"{kind:4} ms per step, {name:4}: {spread([one[kind] for one in found])}")
        for above, below in (("fit", "ours"), ("ours", "bare")):
            pairs = zip(steps[above], steps[below], strict=True)
            ratios = [one[kind] / other[kind] for one, other in pairs]
            print(f"{kind:4} {above + ' / ' + below:18}: {spread(ratios)}")


def spread(found: list[float]) -> str:
    """Smallest, middle and largest of `found`."""
    return f"min {min(found):.2f}  median {statistics.median(found):.2f}  max {max(found):.2f}"


if __name__ == "__main__":
    main()
