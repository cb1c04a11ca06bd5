"""Trains small models and writes the results, as JSON, for `test_small_trainers.py`.

Run by `conftest.py` with the Keras backend tensorflow.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import keras
import numpy as np
import tensorflow as tf

from engine.runs.checkpoints.checkpoint_files import Position
from engine.tf import devices
from engine.tf.samples.data import ArraySamples, data_sets
from engine.training import sample_order
from engine.training.errors import TrainingFailed
from tests.engine.tf.parallelism.small_floats import half_precision, left_out, overflow
from tests.engine.tf.parallelism.small_runs import (
    BATCH,
    MIRRORED,
    SAMPLES,
    copies,
    data,
    dense,
    difference,
    made,
    recipe,
    trained,
    weights,
)


def equal_to_one_device() -> dict[str, float]:
    """Differences from one device, for models and options that easily go wrong."""
    odd = keras.regularizers.L2(0.01)
    words = np.random.RandomState(1).randint(0, 5, (SAMPLES, 4))
    cases: dict[str, tuple[SimpleNamespace, dict[str, Any]]] = {
        "regularisation": (recipe(dense(3, kernel_regularizer=odd)), {"accumulation": 3}),
        "sparse gradients": (
            recipe(
                lambda: keras.layers.Embedding(5, 4),
                keras.layers.Flatten,
                dense(3),
                shape=(4,),
                datasets=lambda: data(words),
            ),
            {"optimizer": "adam", "accumulation": 2},
        ),
        "rmsprop": (
            recipe(dense(3)),
            {"optimizer": "rmsprop", "learning_rate": 0.01, "momentum": 0.5, "weight_decay": 0.1},
        ),
        "clipping by the recipe": (
            recipe(dense(3), optimizer=lambda _, rate: keras.optimizers.SGD(rate, clipnorm=0.1)),
            {},
        ),
    }
    found = {}
    for name, (given, options) in cases.items():
        alone = trained("tf/single", given, **options | {"accumulation": 1})
        for kind in ("tf/mirrored", "tf/central_storage"):
            found[f"{name}, {kind}"] = difference(trained(kind, given, **options), alone)
    return found


def batch_norm() -> dict[str, Any]:
    """Running statistics: which replica's values are used."""
    given = recipe(dense(8), keras.layers.BatchNormalization, dense(3))
    one, central = made("tf/mirrored", given), made("tf/central_storage", given)
    mean = one._replica.model.layers[1].moving_mean
    for each in (one, central):
        each.run_steps(Position(), 4)
    before = copies(mean)
    one.begin_validation()
    after = copies(mean)
    return {
        "apart before": difference(before[:1], before[1:]),
        "apart after": difference(after[:1], after[1:]),
        "from the first": difference(before[:1], after[:1]),
        "central from the first": difference(weights(central), weights(one)),
    }


def resumed() -> dict[str, float]:
    """Differences between a restored training and one without interruption."""
    given = recipe(
        dense(8), keras.layers.BatchNormalization, lambda: keras.layers.Dropout(0.5), dense(3)
    )
    found = {}
    for kind in ("tf/single", "tf/mirrored", "tf/central_storage"):
        with tempfile.TemporaryDirectory() as folder:
            one = made(kind, given, optimizer="adam", schedule="cosine", precision="fp16")
            one.run_steps(Position(), 2)
            one.save(Path(folder))
            draws = random.random(), float(np.random.rand())
            one.run_steps(Position(0, 2, 2), 2)
            other = made(kind, given, optimizer="adam", schedule="cosine", precision="fp16")
            other.restore(Path(folder))
            assert draws == (random.random(), float(np.random.rand()))
            other.run_steps(Position(0, 2, 2), 2)
            found[kind] = difference(weights(one), weights(other))
    return found


def further_sets() -> list[Any]:
    """How the names of the metrics of further validation sets begin, and all of the names."""
    train, validation = data()
    sets = {"first": validation, "test": validation}
    one = made("tf/single", recipe(dense(3), datasets=lambda: (train, sets)))
    session: Any = one._session
    one.begin_validation()
    one.validate(0, one.validation_batches)
    return [session.prefixes, list(one.end_validation())]


def misfits() -> list[str]:
    """The messages for checkpoints of another model, and for a damaged file."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        made("tf/single", recipe(dense(4), dense(3))).save(Path(folder))
        others = [recipe(dense(5), dense(3)), recipe(dense(4), dense(4), dense(3))]
        for number, other in enumerate([*others, recipe(dense(4), dense(3))]):
            if number == len(others):
                (Path(folder) / "state.index").write_bytes(b"nothing")
            try:
                made("tf/single", other).restore(Path(folder))
            except TrainingFailed as error:
                found.append(str(error))
    return found


def nonsense() -> list[str]:
    """The messages for results of datasets() that are not data sets."""
    pair = np.ones((4, 2)), np.ones(4)
    found = []
    for given in (
        5,
        (pair,),
        (pair, iter(())),
        (pair, (np.ones(4), 3)),
        (pair, ([1, 2], [[1], "a"])),
    ):
        try:
            train, validation = data_sets(given)
            for each in (train, *validation.values()):
                ArraySamples(each)
        except ValueError as error:
            found.append(str(error))
    return found


def streams() -> dict[str, Any]:
    """The random numbers of every replica, from dropout and from `keras.random`."""
    drawn: list[Any] = []

    class Draws(keras.layers.Layer):  # type: ignore[misc]
        def call(self, inputs: Any, training: bool = False) -> Any:
            if training:
                number = keras.random.uniform((), 0, 1)
                tf.py_function(lambda x: drawn.append(float(x)), [number], [])
            return inputs

    one = made("tf/mirrored", recipe(Draws, lambda: keras.layers.Dropout(0.5), dense(3)))
    one.run_steps(Position(), 3)
    return {"drawn": drawn, "states": one._replica.streams.states()}


def compiled() -> float:
    """The effect of XLA, on two replicas with uneven local batches."""
    given = recipe(dense(8), dense(3))
    alone = trained("tf/single", given)
    return difference(trained("tf/mirrored", given, compile=True, accumulation=2), alone)


def asking() -> dict[str, float]:
    """Differences from the default loss, for a loss with an `if` on a tensor's value."""

    def loss(outputs: Any, targets: Any) -> Any:
        found = keras.losses.sparse_categorical_crossentropy(targets, outputs, from_logits=True)
        if tf.reduce_max(targets) > 100:
            found = found * 0.0
        return found

    plain, asks = recipe(dense(3)), recipe(dense(3), loss=loss)
    return {
        kind: difference(trained(kind, asks), trained(kind, plain))
        for kind in ("tf/single", "tf/mirrored")
    }


def schedules() -> dict[str, Any]:
    """A recipe's own learning-rate schedule, without and with one in the spec."""

    def own(parameters: Any, rate: float) -> keras.optimizers.Optimizer:
        return keras.optimizers.SGD(keras.optimizers.schedules.ExponentialDecay(rate, 1, 0.5))

    given = recipe(dense(3), optimizer=own)
    rates = made("tf/single", given).run_steps(Position(), 3).read()["learning_rate"]
    try:
        made("tf/single", given, schedule="cosine")
    except TrainingFailed as error:
        return {"rates": rates, "said": str(error)}
    return {"rates": rates, "said": ""}


def samples() -> dict[str, list[float]]:
    """The samples of an epoch's steps, and of one whose batch is larger than the data."""
    found = {}
    for kind in ("tf/single", "tf/mirrored", "tf/central_storage"):
        one, large = made(kind, recipe(dense(3))), made(kind, recipe(dense(3)), batch_size=500)
        epoch = one.run_steps(Position(), one.steps_per_epoch)
        found[kind] = [epoch.samples, large.run_steps(Position(), 1).samples]
    return found


def naive() -> dict[str, float]:
    """The loop of many tutorials: `strategy.run` over data that is not distributed, with the mean
    of each replica's loss."""
    given = recipe(dense(3), datasets=lambda: data(np.eye(SAMPLES, 6, dtype=np.float32)))

    def ours(rate: float) -> list[Any]:
        one = made("tf/mirrored", given, learning_rate=rate)
        one.run_steps(Position(), 3)
        return weights(one)

    one = made("tf/mirrored", given)
    model, optimizer = one._replica.model, one._replica.optimizer
    order = sample_order.epoch_order(SAMPLES, 0, 0)

    @tf.function
    def step(inputs: Any, targets: Any) -> None:
        with tf.GradientTape() as tape:
            outputs = model(inputs, training=True)
            loss = tf.reduce_mean(
                keras.losses.sparse_categorical_crossentropy(targets, outputs, from_logits=True)
            )
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    for batch in range(3):
        indices = tf.constant(order[batch * BATCH :][:BATCH])
        train = one._replica.train
        assert isinstance(train, ArraySamples)
        MIRRORED.run(step, args=train.batch(indices))
    return {
        "from ours": difference(weights(one), ours(0.1)),
        "from ours at twice the rate": difference(weights(one), ours(0.2)),
    }


def gpus() -> dict[str, Any]:
    """The configuration of GPUs, with a TensorFlow that pretends to have some."""
    seen = ["first", "second"]
    asked: list[Any] = []

    def divide(gpu: str, parts: list[Any]) -> None:
        asked.append([gpu, *(part.memory_limit for part in parts)])

    def grow(gpu: str, enabled: bool) -> None:
        asked.append([gpu, enabled])

    config = tf.config
    with (
        mock.patch.object(config, "get_visible_devices", return_value=seen),
        mock.patch.object(config, "set_logical_device_configuration", divide),
        mock.patch.object(config.experimental, "set_memory_growth", grow),
    ):
        names = [devices.configure(("a", "b")), devices.configure(("a", "a", "b", "b"), 512)]
        try:
            devices.configure(("a", "b", "c"))
        except TrainingFailed as error:
            return {"asked": asked, "names": names, "said": str(error)}
    return {}


def main() -> None:
    """Write everything to the file that the argument names."""
    wanted = (
        equal_to_one_device,
        batch_norm,
        resumed,
        further_sets,
        misfits,
        nonsense,
        streams,
        overflow,
        left_out,
        half_precision,
        compiled,
        asking,
        schedules,
        naive,
        samples,
        gpus,
    )
    found = {function.__name__: function() for function in wanted}
    Path(sys.argv[1]).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
