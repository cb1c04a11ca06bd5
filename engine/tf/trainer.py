"""The TensorFlow side of the training loop: K steps inside one `tf.function` call."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from engine import sample_order
from engine.process import resident_bytes, trim_heap
from engine.tf.data import ArraySamples
from engine.tf.devices import configure
from engine.tf.strategy import TfStrategy
from engine.worker.session import WorkerSession

STATE = "state"
"""Prefix of the checkpoint's files."""


def default_optimizer(parameters: Any, learning_rate: float) -> keras.optimizers.Optimizer:
    """AdamW."""
    return keras.optimizers.AdamW(learning_rate)


def no_metrics(outputs: tf.Tensor, targets: tf.Tensor) -> dict[str, tf.Tensor]:
    """For recipes that only care for the loss."""
    return {}


class TfTrainer:
    """Model, optimizer and data of all replicas; see `engine.worker.protocols.Trainer`."""

    def __init__(self, session: WorkerSession, strategy: TfStrategy) -> None:
        self._spec = session.spec
        self._device_names = session.devices
        self._scope = strategy.build(configure(session.devices))
        keras.utils.set_random_seed(session.spec.seed)
        recipe = session.load_recipe()

        def bound(name: str, default: Callable[..., Any]) -> Callable[..., Any]:
            """A function of the recipe's, with the settings that it takes."""
            function = getattr(recipe, name, default)
            return partial(function, **session.settings_for(function))

        train, validation = recipe.datasets(**session.settings_for(recipe.datasets))
        self._train, self._validation = ArraySamples(train), ArraySamples(validation)
        self._loss = bound("loss", self._default_loss)
        self._metrics = bound("metrics", no_metrics)
        with self._scope.scope():
            self._model = recipe.model(**session.settings_for(recipe.model))
            if not self._model.built:
                self._model(self._train.batch(tf.constant([0]))[0])
            self._variables = self._model.trainable_variables
            self._optimizer = bound("optimizer", default_optimizer)(
                self._variables, session.spec.learning_rate
            )
            self._optimizer.build(self._variables)
        self._order: tuple[int, tf.Tensor] = (-1, tf.constant([], tf.int64))
        self._everything = tf.range(len(self._validation), dtype=tf.int64)
        self._names: list[str] = []
        self._sums = np.zeros(0)
        size = session.spec.batch_size
        self.replicas = int(self._scope.num_replicas_in_sync)
        self.steps_per_epoch = sample_order.batches_per_epoch(len(self._train), size)
        self.validation_batches = sample_order.batches_per_epoch(len(self._validation), size)
        self.parameters = int(sum(np.prod(variable.shape) for variable in self._variables))
        counter = tf.TensorSpec((), tf.int64)
        indices = tf.TensorSpec((None,), tf.int64)
        # One trace for every chunk length: the length is a tensor.
        self._steps = tf.function(self._many_steps, input_signature=[indices, counter, counter])
        self._batches = tf.function(self._many_batches, input_signature=[indices, counter, counter])

    def run_steps(self, epoch: int, batch: int, count: int) -> dict[str, list[float]]:
        if self._order[0] != epoch:
            order = sample_order.epoch_order(len(self._train), self._spec.seed, epoch)
            self._order = (epoch, tf.constant(order))
        losses = self._steps(
            self._order[1], tf.constant(batch, tf.int64), tf.constant(count, tf.int64)
        )
        return {"loss": losses.numpy().tolist()}

    def rank_figures(self) -> dict[str, float]:
        return {"memory_resident": float(resident_bytes())}

    def begin_validation(self) -> None:
        self._sums = np.zeros(1)

    def validate(self, batch: int, count: int) -> None:
        self._sums = (
            self._sums
            + self._batches(
                self._everything, tf.constant(batch, tf.int64), tf.constant(count, tf.int64)
            ).numpy()
        )

    def end_validation(self) -> dict[str, float]:
        means = self._sums / len(self._validation)
        return dict(zip(self._names, means.tolist(), strict=True))

    def save(self, folder: Path) -> None:
        self._checkpoint().write(str(folder / STATE))

    def restore(self, folder: Path) -> None:
        self._checkpoint().read(str(folder / STATE)).assert_consumed()

    def free_devices(self) -> None:
        raise RuntimeError("TensorFlow cannot move its variables: the supervisor refuses to ask.")

    def take_devices_back(self) -> None:
        raise RuntimeError("Nothing was ever moved from the devices.")

    def empty_cache(self) -> dict[str, int]:
        """TensorFlow keeps the GPU memory that it took until its process ends: there it frees 0."""
        before = resident_bytes()
        gc.collect()
        trim_heap()
        freed = dict.fromkeys(self._device_names, 0)
        if self._scope.extended.worker_devices[0].endswith("CPU:0"):
            # The logical CPU devices are one process: its memory is counted once.
            freed[self._device_names[0]] = max(0, before - resident_bytes())
        return freed

    def agree(self, word: tuple[int, int]) -> tuple[int, int]:
        return word  # one process: there is nobody else

    def barrier(self) -> None:
        pass  # there is nobody else

    def close(self) -> None:
        pass  # there is nobody else

    def _checkpoint(self) -> tf.train.Checkpoint:
        return tf.train.Checkpoint(
            variables=list(self._model.variables), optimizer=list(self._optimizer.variables)
        )

    def _many_steps(self, order: tf.Tensor, first: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
        losses = tf.TensorArray(tf.float32, size=tf.cast(count, tf.int32), element_shape=())
        for k in tf.range(count):
            whole = self._global_batch(order, first + k)
            loss, gradients = self._scope.run(self._replica_step, args=(whole,))
            # The gradients are summed: every replica has the same, and the update takes any.
            summed = [self._scope.experimental_local_results(g)[0] for g in gradients]
            self._optimizer.apply(summed, self._variables)
            losses = losses.write(tf.cast(k, tf.int32), self._scope.reduce("SUM", loss, axis=None))
        return losses.stack()

    def _many_batches(self, order: tf.Tensor, first: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
        sums = self._one_batch(order, first)
        for k in tf.range(1, count):
            sums += self._one_batch(order, first + k)
        return sums

    def _one_batch(self, order: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
        whole = self._global_batch(order, number)
        return self._scope.reduce(
            "SUM", self._scope.run(self._replica_validation, args=(whole,)), axis=None
        )

    def _global_batch(self, order: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
        """`engine.sample_order.global_batch`, in the graph."""
        size = self._spec.batch_size
        return order[number * size : (number + 1) * size]

    def _share(self, whole: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """`engine.sample_order.share`, in the graph; and how many samples it is.

        A replica without a sample gets one that counts for nothing: its graph is the same.
        """
        context = tf.distribute.get_replica_context()
        replica = context.replica_id_in_sync_group
        mine = whole[replica :: context.num_replicas_in_sync]
        count = tf.size(mine)
        return tf.cond(count > 0, lambda: mine, lambda: whole[:1]), count

    def _replica_step(self, whole: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        mine, count = self._share(whole)
        inputs, targets = self._train.batch(mine)
        with tf.GradientTape() as tape:
            outputs = self._model(inputs, training=True)
            loss = tf.cast(tf.reduce_mean(self._loss(outputs, targets)), tf.float32)
            # Summed over the replicas this is the mean over the global batch, however uneven.
            loss *= tf.cast(count, tf.float32) / tf.cast(tf.size(whole), tf.float32)
            total = loss
            if self._model.losses:  # regularisation is no matter of samples: each adds its part
                total += tf.add_n(self._model.losses) / self.replicas
        gradients = tape.gradient(total, self._variables, unconnected_gradients="zero")
        dense = [tf.convert_to_tensor(gradient) for gradient in gradients]
        return loss, tf.distribute.get_replica_context().all_reduce("SUM", dense)

    def _replica_validation(self, whole: tf.Tensor) -> tf.Tensor:
        """Loss and metrics, each times the number of samples of this replica."""
        mine, count = self._share(whole)
        inputs, targets = self._validation.batch(mine)
        outputs = self._model(inputs, training=False)
        values = {"loss": tf.reduce_mean(self._loss(outputs, targets))}
        values |= self._metrics(outputs, targets)
        self._names = list(values)
        means = tf.stack([tf.cast(value, tf.float64) for value in values.values()])
        return means * tf.cast(count, tf.float64)

    def _default_loss(self, outputs: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
        """Cross-entropy from logits for integer targets, mean squared error otherwise."""
        if self._train.has_classes:
            return keras.losses.sparse_categorical_crossentropy(targets, outputs, from_logits=True)
        return keras.losses.mean_squared_error(targets, outputs)


def build(session: WorkerSession, strategy: TfStrategy) -> TfTrainer:
    """The trainer of this process."""
    return TfTrainer(session, strategy)
