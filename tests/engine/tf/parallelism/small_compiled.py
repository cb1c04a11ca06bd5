"""Compiled models: the differences between our training and Keras' own `fit`, by strategy."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from engine.runs.checkpoints.checkpoint_files import Position
from engine.tf.random_streams import RandomStreams
from engine.tf.trainer import TfTrainer
from engine.training import sample_order
from engine.training.errors import TrainingFailed
from tests.engine.tf.parallelism.small_runs import BATCH, SAMPLES, data, difference, made

EPOCHS = 2

Make = Callable[[], keras.Model]


def several_outputs() -> keras.Model:
    """Two inputs by name and two outputs by name, with a loss and a weight for each."""
    left, right = keras.Input((6,), name="left"), keras.Input((4,), name="right")
    both = keras.layers.Concatenate()([left, right])
    hidden = keras.layers.Dense(8, activation="tanh", kernel_regularizer="l2")(both)
    model = keras.Model(
        {"left": left, "right": right},
        {
            "kind": keras.layers.Dense(3, name="kind")(hidden),
            "size": keras.layers.Dense(1, name="size")(hidden),
        },
    )
    model.compile(
        keras.optimizers.Adam(0.02),
        loss={"kind": keras.losses.SparseCategoricalCrossentropy(from_logits=True), "size": "mse"},
        loss_weights={"kind": 1.0, "size": 0.3},
        metrics={"kind": ["accuracy"], "size": ["mae"]},
    )
    return model


def weighted_samples() -> keras.Model:
    """A Sequential whose samples have weights, with a weighted metric and clipped gradients."""
    model = keras.Sequential(
        [keras.Input((6,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(3)]
    )
    model.compile(
        keras.optimizers.SGD(0.1, momentum=0.9, clipnorm=0.5),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        weighted_metrics=[keras.metrics.SparseCategoricalAccuracy(name="hits")],
        metrics=["sparse_categorical_crossentropy"],
    )
    return model


def penalised_chain() -> keras.Model:
    """A Sequential with regularisation in both of its stages."""
    model = keras.Sequential(
        [
            keras.Input((6,)),
            keras.layers.Dense(8, kernel_regularizer="l2", activation="tanh"),
            keras.layers.Dense(3, kernel_regularizer="l1"),
        ]
    )
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(True), metrics=["accuracy"])
    return model


def sum_of_losses() -> keras.Model:
    """A loss that is a sum over the batch."""
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4), keras.layers.Dense(3)])
    model.compile(
        keras.optimizers.SGD(0.002),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum"),
        metrics=["accuracy"],
    )
    return model


def masked() -> keras.Model:
    """An embedding whose zeros are left out: the loss is a mean over the other places."""
    words = keras.Input((5,), dtype="int32")
    hidden = keras.layers.Embedding(7, 4, mask_zero=True)(words)
    model = keras.Model(words, keras.layers.Dense(7)(hidden))
    model.compile(
        keras.optimizers.SGD(0.1),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


class Penalised(keras.layers.Layer):  # type: ignore[misc]
    """Adds a loss that depends on the batch."""

    def call(self, inputs: Any) -> Any:
        self.add_loss(0.1 * keras.ops.mean(keras.ops.square(inputs)))
        return inputs


def added_loss() -> keras.Model:
    """A layer that adds a loss; XLA and a schedule in compile(); one layer is used twice."""
    inputs = keras.Input((6,))
    tied = keras.layers.Dense(6, activation="tanh")
    model = keras.Model(inputs, keras.layers.Dense(3)(Penalised()(tied(tied(inputs)))))
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.9)
    model.compile(
        keras.optimizers.SGD(schedule),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    return model


class OwnLoss(keras.Model):  # type: ignore[misc]
    """A model with its own `compute_loss` and its own metric."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = keras.layers.Dense(3)
        self.distance = keras.metrics.Mean(name="distance")

    def call(self, inputs: Any) -> Any:
        return self.inner(inputs)

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        wanted = keras.ops.one_hot(y, 3)
        return keras.ops.mean(keras.ops.abs(wanted - y_pred) ** 3)

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        self.distance.update_state(keras.ops.mean(y_pred, axis=1))
        return super().compute_metrics(x, y, y_pred, sample_weight)


def own_loss() -> keras.Model:
    """A subclass of Model."""
    model = OwnLoss()
    model.compile(keras.optimizers.Adam(0.05))
    return model


def of_words() -> Any:
    """Sentences of different lengths, of which the next word is the target."""
    generator = np.random.RandomState(2)
    words = generator.randint(1, 7, (SAMPLES, 5)).astype(np.int32)
    for row, length in zip(words, generator.randint(2, 6, SAMPLES), strict=True):
        row[length:] = 0
    return (words, np.roll(words, -1, axis=1)), (words, np.roll(words, -1, axis=1))


def of_several() -> Any:
    """Dictionaries of inputs and of targets."""
    generator = np.random.RandomState(3)
    inputs = {"left": generator.randn(SAMPLES, 6), "right": generator.randn(SAMPLES, 4)}
    targets = {
        "kind": generator.randint(0, 3, SAMPLES),
        "size": generator.randn(SAMPLES, 1).astype(np.float32),
    }
    return (inputs, targets), (inputs, targets)


def with_weights() -> Any:
    """Inputs, targets and sample weights."""
    inputs, targets = data()[0]
    each = np.random.RandomState(4).rand(SAMPLES).astype(np.float32)
    return (inputs, targets, each), (inputs, targets, each)


CHECKED = {
    "several outputs": ("tf/single", "tf/mirrored", "tf/central_storage"),
    "weighted samples": ("tf/mirrored", "tf/mirrored_fit"),
    "penalties": ("tf/mirrored_fit", "tf/model_parallel"),
    "sum": ("tf/mirrored",),
    "masks": ("tf/mirrored", "tf/mirrored_fit"),
    "added loss": ("tf/single",),
    "own loss": ("tf/mirrored", "tf/model_parallel"),
}
"""The strategies under which each case is compared."""

CASES: dict[str, tuple[Make, Callable[[], Any], dict[str, Any]]] = {
    "several outputs": (several_outputs, of_several, {"accumulation": 2}),
    "weighted samples": (weighted_samples, with_weights, {}),
    "penalties": (penalised_chain, data, {"accumulation": 2}),
    "sum": (sum_of_losses, data, {}),
    "masks": (masked, of_words, {}),
    "added loss": (added_loss, data, {}),
    "own loss": (own_loss, data, {"accumulation": 3}),
}
"""By name: the model, its data, and options of our run that do not change the result."""


def fitted(make: Make, datasets: Callable[[], Any]) -> tuple[dict[str, list[float]], list[Any]]:
    """The history of Keras' `fit` with our order of samples, and the weights afterwards."""
    RandomStreams.prepare(0)
    model = make()
    train, validation = datasets()
    history: dict[str, list[float]] = {}
    for epoch in range(EPOCHS):
        order = sample_order.epoch_order(SAMPLES, 0, epoch)
        inputs, *others = keras.tree.map_structure(lambda array: array[order], train)  # noqa: B023
        targets, weight = [*others, None, None][:2]
        found = model.fit(
            inputs,
            targets,
            sample_weight=weight,
            batch_size=BATCH,
            shuffle=False,
            validation_data=validation,
            validation_batch_size=BATCH,
            verbose=0,
        )
        for name, values in found.history.items():
            history.setdefault(name, []).extend(map(float, values))
    return history, [np.asarray(v, np.float64) for v in model.weights]


def ours(
    kind: str,
    make: Make,
    datasets: Callable[[], Any],
    *,
    shows_last: bool = False,
    **options: Any,
) -> Any:
    """What `fitted` returns, of our training; and the trainer.

    `shows_last`: the value of an epoch is that of its last step.
    """
    given = SimpleNamespace(model=make, datasets=datasets)
    one = made(kind, given, **options)
    history: dict[str, list[float]] = {}
    sizes = np.diff([*range(0, SAMPLES, BATCH), SAMPLES])
    for epoch in range(EPOCHS):
        found: dict[str, list[float]] = {}
        for first, count in ((0, 3), (3, one.steps_per_epoch - 3)):
            position = Position(epoch, first, epoch * one.steps_per_epoch + first)
            for name, values in one.run_steps(position, count).read().items():
                found[name] = [*found.get(name, []), *values]
        one.begin_validation()
        one.validate(0, 1)
        one.validate(1, one.validation_batches - 1)
        found |= {f"val_{name}": [value] for name, value in one.end_validation().items()}
        for name, values in found.items():
            # Keras counts the batches, and not their samples, for the loss of one output.
            weights = None if name.endswith("_loss") else sizes
            is_of_step = len(values) == len(sizes) and not shows_last
            value = np.average(values, weights=weights) if is_of_step else values[-1]
            history.setdefault(name, []).append(float(value))
    return history, weights_of(one), one


def weights_of(one: TfTrainer) -> list[Any]:
    """The weights of the recipe's model."""
    return [np.asarray(v, np.float64) for v in one._replica.model.weights]


def resumed_metrics() -> dict[str, Any]:
    """Differences between a training restored within an epoch and one without interruption."""
    make, datasets, _ = CASES["several outputs"]
    found = {}
    for kind in ("tf/mirrored",):
        one, other = (made(kind, SimpleNamespace(model=make, datasets=datasets)) for _ in range(2))
        with tempfile.TemporaryDirectory() as folder:
            one.run_steps(Position(), 2)
            one.save(Path(folder))
            wanted = one.run_steps(Position(0, 2, 2), 2).read()
            other.restore(Path(folder))
            curves = other.run_steps(Position(0, 2, 2), 2).read()
        apart = max(np.abs(np.subtract(wanted[name], curves[name])).max() for name in wanted)
        found[kind] = [sorted(wanted), float(apart), difference(weights_of(one), weights_of(other))]
    return found


class Numbered(keras.utils.PyDataset):  # type: ignore[misc]
    """Batches by number, whose content depends on how many epochs have ended."""

    def __init__(self, pair: Any) -> None:
        super().__init__(workers=3)
        self._pair = pair
        self._order = np.arange(SAMPLES)

    def __len__(self) -> int:
        return -(-SAMPLES // BATCH)

    def __getitem__(self, number: int) -> Any:
        chosen = self._order[number * BATCH : (number + 1) * BATCH]
        return tuple(array[chosen] for array in self._pair)

    def on_epoch_end(self) -> None:
        np.random.shuffle(self._order)


def generated() -> Any:
    """A tf.data.Dataset of unknown length whose batches come from Python."""
    inputs, targets = data()[0]

    def generate() -> Any:
        for first in range(0, SAMPLES, BATCH):
            yield inputs[first:][:BATCH], targets[first:][:BATCH]

    signature = (tf.TensorSpec((None, 6), tf.float32), tf.TensorSpec((None,), tf.int64))
    return tf.data.Dataset.from_generator(generate, output_signature=signature)


def shuffled() -> Any:
    """A tf.data.Dataset of single samples, shuffled anew in each epoch."""
    return tf.data.Dataset.from_tensor_slices(data()[0]).shuffle(SAMPLES)


STREAMS: dict[str, Callable[[], Any]] = {
    "unknown length": generated,
    "batches": lambda: tf.data.Dataset.from_tensor_slices(data()[0]).batch(BATCH),
    "shuffled samples": shuffled,
    "by number": lambda: Numbered(data()[0]),
}


def streams_of_data() -> dict[str, Any]:
    """For each stream: what differs by strategy, after a resume within the second epoch, and from
    Keras' `fit`, which shuffles in its own way."""
    found: dict[str, Any] = {}
    for name, make in STREAMS.items():
        given = SimpleNamespace(model=penalised_chain, datasets=lambda make=make: (make(), make()))
        alone, curve = read_through("tf/single", given)
        both = {}
        for kind in () if name in ("batches", "shuffled samples") else ("tf/mirrored",):
            one, losses = read_through(kind, given)
            both[kind] = [difference(weights_of(one), weights_of(alone)), len(losses)]
            both[kind].append(float(np.abs(np.subtract(curve, losses)).max()))
        resumed = 0.0
        if name in ("shuffled samples", "by number"):
            with tempfile.TemporaryDirectory() as folder:
                half, _ = read_through("tf/single", given, stop=(1, 2))
                half.save(Path(folder))
                other = made("tf/single", given)
                other.restore(Path(folder))
            other, _ = read_through("tf/single", given, start=(1, 2), one=other)
            resumed = difference(weights_of(other), weights_of(alone))
        fit = 0.0
        if name == "batches":  # without a length, fit does one step too many after the first epoch
            RandomStreams.prepare(0)
            model = penalised_chain()
            model.fit(make(), epochs=EPOCHS, verbose=0)
            theirs = [np.asarray(v, np.float64) for v in model.weights]
            fit = difference(weights_of(alone), theirs)
        found[name] = [alone.steps_per_epoch, both, resumed, fit]
    return found


def refused_streams() -> list[str]:
    """The sentences about streams that cannot be read as they are."""
    inputs, targets = data()[0]
    pairs = tf.data.Dataset.from_tensor_slices((inputs, targets))

    def generate() -> Any:
        yield inputs[0], inputs[0]

    same = (tf.TensorSpec((6,)), tf.TensorSpec((6,)))
    given = [
        pairs.batch(16),
        tf.data.Dataset.from_generator(generate, output_signature=same),
        pairs.take(0),
        tf.data.Dataset.from_tensor_slices(tf.ragged.constant([[1], [2, 3]])).batch(2),
        range(3),
    ]
    found = []
    for each in given:
        recipe = SimpleNamespace(model=penalised_chain, datasets=lambda each=each: (each, None))
        try:
            made("tf/single", recipe)
        except ValueError as error:
            found.append(str(error))
    return found


def read_through(
    kind: str,
    given: SimpleNamespace,
    start: tuple[int, int] = (0, 0),
    stop: tuple[int, int] = (EPOCHS, 0),
    one: TfTrainer | None = None,
) -> tuple[TfTrainer, list[float]]:
    """Train from one epoch and batch to another, with the validation of each epoch."""
    one = one or made(kind, given)
    losses: list[float] = []
    epoch, batch = start
    while (epoch, batch) < stop:
        wanted = stop[1] - batch if epoch == stop[0] else 3
        if one.steps_per_epoch:
            wanted = min(wanted, one.steps_per_epoch - batch)
        found = one.run_steps(Position(epoch, batch, epoch * 4 + batch), wanted).read()["loss"]
        losses += found
        batch += len(found)
        if one.epoch_ended or batch == one.steps_per_epoch:
            one.begin_validation()
            done = 0
            while (count := one.validate(done, 3)) == 3:
                done += count
            assert "accuracy" in one.end_validation()
            epoch, batch = epoch + 1, 0
    return one, losses


def like_fit() -> dict[str, Any]:
    """For each model and strategy: the largest differences of curves and of weights, or why not."""
    found: dict[str, Any] = {}
    for name, (make, datasets, options) in CASES.items():
        wanted, final = fitted(make, datasets)
        for kind in CHECKED[name]:
            chosen = options if kind not in ("tf/single", "tf/mirrored_fit") else {}
            try:
                curves, reached, _ = ours(kind, make, datasets, **chosen)
            except TrainingFailed as error:
                found[f"{name}, {kind}"] = str(error)
                continue
            assert wanted.keys() <= curves.keys(), (name, kind, wanted.keys(), curves.keys())
            apart = {
                key: np.abs(np.subtract(wanted[key], curves[key])).max()
                for key in wanted
                if key not in ("val_kind_loss", "val_size_loss")  # see above
            }
            worst = max(apart, key=lambda key: float(apart[key]))
            found[f"{name}, {kind}"] = [worst, float(apart[worst]), difference(final, reached)]
    return found


class Counts(keras.callbacks.Callback):  # type: ignore[misc]
    """Keeps what `fit` says at the ends of epochs."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[dict[str, float]] = []

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.seen.append({name: float(value) for name, value in logs.items()})


COUNTING = keras.callbacks.ModelCheckpoint("x.keras", save_freq=3)


def callbacks_at_epochs() -> dict[str, Any]:
    """Callbacks that lower the learning rate and stop early: in `fit`, with us, and resumed."""

    def some() -> list[Any]:
        return [
            Counts(),
            keras.callbacks.ReduceLROnPlateau("loss", factor=0.5, patience=1, min_delta=0.3),
            keras.callbacks.EarlyStopping(
                "val_loss", patience=2, min_delta=0.3, restore_best_weights=True
            ),
        ]

    train, _ = data()
    sets = tf.data.Dataset.from_tensor_slices(train).batch(BATCH)
    RandomStreams.prepare(0)
    model = penalised_chain()
    theirs = some()
    model.fit(sets, validation_data=sets, epochs=9, verbose=0, callbacks=theirs)
    given = SimpleNamespace(model=penalised_chain, datasets=lambda: (sets, sets))
    ours = some()
    given.callbacks = lambda: ours
    one = made("tf/single", given, epochs=9)
    reasons, rates = [], []
    for epoch in range(9):
        if epoch == 1:  # goes on in another trainer
            with tempfile.TemporaryDirectory() as folder:
                one.save(Path(folder))
                given.callbacks = lambda: [ours[0], *some()[1:]]
                one = made("tf/single", given, epochs=9)
                one.restore(Path(folder))
        rates += one.run_steps(Position(epoch, 0, 4 * epoch), 4).read()["learning_rate"]
        one.begin_validation()
        one.validate(0, 4)
        metrics = {f"validation/{name}": value for name, value in one.end_validation().items()}
        reasons.append(one.end_epoch(epoch + 1, metrics))
        if reasons[-1]:
            break
    said = []
    for callback in (
        keras.callbacks.TerminateOnNaN(),
        keras.callbacks.ModelCheckpoint("x.keras", save_freq=3),
    ):
        given.callbacks = lambda callback=callback: [callback]
        try:
            made("tf/single", given)
        except TrainingFailed as error:
            said.append(str(error))
    apart = [
        abs(mine[name] - value)
        for mine, their in zip(ours[0].seen, theirs[0].seen, strict=True)
        for name, value in their.items()
        if name in mine
    ]
    wanted = [np.asarray(v, np.float64) for v in model.weights]
    return {
        "reasons": reasons,
        "rates": sorted(set(rates)),
        "names": sorted(ours[0].seen[0]),
        "logs": max(apart),
        "weights": difference(weights_of(one), wanted),
        "said": said,
    }


class OwnStep(keras.Sequential):  # type: ignore[misc]
    """A model with a `train_step` of its own."""

    def train_step(self, data: Any) -> Any:
        inputs, targets = data
        with tf.GradientTape() as tape:
            outputs = self(inputs, training=True)
            loss = self.compute_loss(y=targets, y_pred=outputs) * 3.0
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply([2.0 * each for each in gradients], self.trainable_variables)
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss)
            else:
                metric.update_state(targets, outputs)
        return {metric.name: metric.result() for metric in self.metrics} | {"of_batch": loss}


class TwoOptimizers(keras.Model):  # type: ignore[misc]
    """No `call`, an optimizer for each of its layers, a count of steps, and own metrics."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = keras.Sequential([keras.layers.Dropout(0.2), keras.layers.Dense(4)])
        self.outer = keras.layers.Dense(6)
        self.mean = keras.metrics.Mean(name="loss")
        self.steps = tf.Variable(0.0)

    def compile(self, inner: Any, outer: Any) -> None:
        super().compile()
        self.both = [inner, outer]

    @property
    def metrics(self) -> Any:
        return [self.mean]

    def train_step(self, data: Any) -> Any:
        with tf.GradientTape(persistent=True) as tape:
            outputs = self.outer(self.inner(data, training=True))
            loss = keras.ops.mean((outputs - data) ** 2) * (1.0 + 0.1 * self.steps)
        for layer, optimizer in zip((self.inner, self.outer), self.both, strict=True):
            variables = layer.trainable_variables
            optimizer.apply(tape.gradient(loss, variables), variables)
        self.mean.update_state(loss)
        self.steps.assign_add(1.0)
        return {"loss": self.mean.result(), "steps": self.steps}

    def test_step(self, data: Any) -> Any:
        self.mean.update_state(keras.ops.mean((self.outer(self.inner(data)) - data) ** 2))
        return {"loss": self.mean.result()}


def two_optimizers() -> keras.Model:
    """A model of inputs only."""
    model = TwoOptimizers()
    model.compile(keras.optimizers.Adam(0.02), keras.optimizers.SGD(0.1, momentum=0.9))
    return model


def one_optimizer() -> keras.Model:
    """A model with metrics of `compile`."""
    hidden = keras.layers.Dense(8, activation="tanh"), keras.layers.Dropout(0.3)
    model = OwnStep([keras.Input((6,)), *hidden, keras.layers.Dense(3)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.05), loss=loss, metrics=["accuracy"])
    return model


def only_inputs() -> Any:
    """Data sets without targets."""
    (inputs, _), _ = data()
    return (inputs,), (inputs,)


def own_train_steps() -> dict[str, Any]:
    """For each model: differences from `fit`, and after a resume; and what is refused."""
    found: dict[str, Any] = {}
    for make, datasets in ((one_optimizer, data), (two_optimizers, only_inputs)):
        wanted, final = fitted(make, datasets)
        curves, reached, one = ours("tf/single", make, datasets, shows_last=True)
        with tempfile.TemporaryDirectory() as folder:
            half, other = (
                made("tf/single", SimpleNamespace(model=make, datasets=datasets)) for _ in range(2)
            )
            half.run_steps(Position(), 4)
            half.run_steps(Position(1, 0, 4), 2)
            half.save(Path(folder))
            other.restore(Path(folder))
        last = other.run_steps(Position(1, 2, 6), 2).read()
        found[make.__name__] = {
            "names": sorted(curves),
            "missing": sorted(wanted.keys() - curves.keys()),
            "curves": max(float(np.abs(np.subtract(wanted[k], curves[k])).max()) for k in wanted),
            "weights": difference(final, reached),
            "resumed curves": max(abs(last[name][-1] - curves[name][-1]) for name in last),
            "resumed weights": difference(weights_of(one), weights_of(other)),
        }
    refused: list[tuple[str, dict[str, Any]]] = [
        ("tf/mirrored", {}),
        ("tf/mirrored_fit", {}),
        ("tf/single", {"accumulation": 2}),
        ("tf/single", {"clip_norm": 1.0}),
        ("tf/single", {"gradient_norm": True}),
        ("tf/single", {"on_nan": "skip"}),
        ("tf/single", {"optimizer": "adam"}),
        ("tf/single", {"precision": "fp16"}),
        ("tf/single", {"schedule": "cosine"}),
        ("tf/single", {"weight": len}),
    ]
    said = []
    for kind, options in refused:
        given = SimpleNamespace(model=two_optimizers, datasets=only_inputs)
        if "weight" in options:
            given.weight = options.pop("weight")
        try:
            made(kind, given, **options)
        except TrainingFailed as error:
            said.append(str(error))
    return found | {"said": said}


def compiled_as(kind: type[keras.Sequential] = keras.Sequential, **options: Any) -> keras.Model:
    """A model that is compiled with `options`."""
    model = kind([keras.Input((6,)), keras.layers.Dense(3)])
    model.compile(**{"optimizer": "sgd", "loss": "mse"} | options)
    return model


def refused_models() -> list[str]:
    """The sentences about recipes that say something twice, or that cannot be honoured."""
    schedule = keras.optimizers.SGD(keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.9))

    def stateful() -> keras.Model:
        inputs = keras.Input((4, 2), batch_size=BATCH)
        return keras.Model(inputs, keras.layers.LSTM(3, stateful=True)(inputs))

    def nothing(*passed: object) -> None: ...

    given: list[dict[str, Any]] = [
        {"model": compiled_as, "loss": nothing},
        {"model": compiled_as, "optimizer": nothing},
        {"model": compiled_as, "step": lambda model, batch: 0},
        {"model": compiled_as, "optimizers": nothing},
        {"model": lambda: compiled_as(run_eagerly=True)},
        {"model": lambda: compiled_as(optimizer=keras.optimizers.SGD(use_ema=True))},
        {"model": lambda: compiled_as(optimizer=schedule)},
        {"model": lambda: compiled_as(loss=None)},
        {"model": stateful, "datasets": lambda: data(np.zeros((SAMPLES, 4, 2), np.float32))},
    ]
    found = []
    for each in given:
        try:
            one = made("tf/single", SimpleNamespace(**({"datasets": data} | each)), rate=0.3)
            one.run_steps(Position(), 1)
        except TrainingFailed as error:
            found.append(str(error))
    return found


def own_steps() -> dict[str, Any]:
    """A recipe with `step`, `weight` and `validate`: figures, and the difference by strategy.

    Its `if` depends on a tensor, so that AutoGraph generates code.
    """
    inputs, targets = data()[0]
    each = np.random.RandomState(5).randint(1, 5, SAMPLES).astype(np.float32)

    def step(model: keras.Model, batch: Any) -> Any:
        outputs = model(batch["x"], training=True)
        loss = keras.losses.sparse_categorical_crossentropy(batch["y"], outputs, from_logits=True)
        largest = tf.reduce_max(loss)
        if largest < 0:
            largest = -largest
        weights = tf.cast(batch["w"], tf.float32)
        return {"loss": tf.reduce_sum(loss * weights) / tf.reduce_sum(weights), "other": loss * 2.0}

    def validate(model: keras.Model, batch: Any) -> Any:
        means = tf.reduce_mean(model(batch["x"], training=False), axis=1)
        return {"mean": tf.reduce_sum(means * batch["w"]) / tf.reduce_sum(batch["w"])}

    given = SimpleNamespace(
        model=lambda: keras.Sequential([keras.Input((6,)), keras.layers.Dense(3)]),
        datasets=lambda: [{"x": inputs, "y": targets, "w": each}] * 2,
        optimizer=lambda parameters, rate: keras.optimizers.SGD(rate, momentum=0.9),
        step=step,
        weight=lambda batch: tf.reduce_sum(batch["w"]),
        validate=validate,
    )
    before = set(Path(tempfile.gettempdir()).glob("**/__autograph_generated_file*"))
    found, reached = [], []
    for kind in ("tf/single", "tf/mirrored"):
        one = made(kind, given, accumulation=1 if kind == "tf/single" else 2)
        curves = one.run_steps(Position(), 4).read()
        one.begin_validation()
        one.validate(0, 4)
        found.append([curves["loss"], curves["other"], *one.end_validation().items()])
        reached.append(weights_of(one))
    after = set(Path(tempfile.gettempdir()).glob("**/__autograph_generated_file*"))
    return {
        "figures": found,
        "apart": difference(*reached),
        "files": len(after - before),
    }


def main() -> None:
    """Write what the other arguments name to the file that the first one names."""
    file, *names = map(str, sys.argv[1:])
    tempfile.tempdir = str(Path(file).parent)
    found = {name: globals()[name]() for name in names}
    Path(file).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
