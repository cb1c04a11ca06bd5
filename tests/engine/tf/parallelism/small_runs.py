"""Small models under TensorFlow's strategies, several in one process: it starts slowly."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest import mock

import keras
import msgspec
import numpy as np
import tensorflow as tf

from engine.runs.checkpoints.checkpoint_files import Position
from engine.spec import catalog
from engine.spec.run_spec import RunSpec
from engine.tf import devices
from engine.tf.trainer import TfTrainer
from tests.support.tf_session import TfSession

NAMES = devices.configure(("cpu:0", "cpu:1"))
MIRRORED = tf.distribute.MirroredStrategy(NAMES)
"""TensorFlow allows one such object per process."""

SAMPLES, BATCH = 97, 32


def sgd(parameters: Any, rate: float) -> keras.optimizers.Optimizer:
    """The optimizer of a recipe."""
    return keras.optimizers.SGD(rate, momentum=0.9)


def data(inputs: Any = None) -> tuple[Any, Any]:
    """Training and validation data, with `inputs` instead of random ones."""
    generator = np.random.RandomState(0)
    given = generator.randn(SAMPLES, 6).astype(np.float32) if inputs is None else inputs
    both = given, generator.randint(0, 3, SAMPLES)
    return both, both


def recipe(*layers: Callable[[], keras.Layer], **more: Any) -> SimpleNamespace:
    """A recipe of a Sequential of these layers; `more` are its functions, or the `shape`."""

    def model() -> keras.Model:
        shape = more.get("shape", (6,))
        return keras.Sequential([keras.Input(shape), *(layer() for layer in layers)])

    functions = {"model": model, "datasets": data, "optimizer": sgd} | more
    return SimpleNamespace(**functions)


def made(kind: str, given: SimpleNamespace, rate: float = 0.0, **options: Any) -> TfTrainer:
    """A trainer under the strategy `kind`; on two devices unless it is tf/single.

    `rate` is a learning rate that the user chose, and that is not the recipe's.
    """
    chosen = ("cpu:0",) if kind == "tf/single" else ("cpu:0", "cpu:1")
    wanted: dict[str, Any] = {"batch_size": BATCH, "learning_rate": 0.1, "epochs": 2}
    spec = RunSpec(recipe="small", strategy=kind, devices=chosen, **(wanted | options))
    session: Any = TfSession(spec, given)
    if rate:
        session.spec = msgspec.structs.replace(spec, learning_rate=rate)
    strategy: Any = catalog.strategy(kind)
    # The devices are configured already, which TensorFlow allows only once.
    with (
        mock.patch.object(devices, "configure", lambda names, limit: NAMES[: len(names)]),
        mock.patch.object(tf.distribute, "MirroredStrategy", return_value=MIRRORED),
    ):
        return TfTrainer(session, strategy)


def weights(one: TfTrainer) -> list[Any]:
    """All variables of the model but the random streams."""
    return [np.asarray(v, np.float64) for v in one._replica.model.variables if v.dtype != "int32"]


def difference(left: list[Any], right: list[Any]) -> float:
    """The largest difference between two lists of arrays."""
    return max(float(np.abs(a - b).max()) for a, b in zip(left, right, strict=True))


def trained(kind: str, given: SimpleNamespace, **options: Any) -> list[Any]:
    """Weights and validation metrics after two epochs."""
    one = made(kind, given, **options)
    for epoch in range(2):
        one.run_steps(Position(epoch, 0, epoch * one.steps_per_epoch), one.steps_per_epoch)
    one.begin_validation()
    one.validate(0, one.validation_batches)
    return [*weights(one), np.array(list(one.end_validation().values()))]


def copies(variable: keras.Variable) -> list[Any]:
    """The values of a variable on every replica of `MIRRORED`."""
    return [np.asarray(v) for v in MIRRORED.experimental_local_results(variable.value)]


def dense(units: int, **options: Any) -> Callable[[], keras.Layer]:
    """A function that makes a Dense layer."""
    return lambda: keras.layers.Dense(units, **options)
