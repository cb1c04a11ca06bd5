"""The TensorFlow side of the training loop: K steps inside one `tf.function` call."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from engine.runs.checkpoint_files import Position
from engine.tf import defaults, training_state
from engine.tf.batch_norm import Statistics
from engine.tf.data import data_sets
from engine.tf.devices import (
    StaysOnDevices,
    configure,
    empty_cache,
    memory_figures,
    set_numerics,
)
from engine.tf.graph import graph, with_autograph
from engine.tf.local_batch import Gradients, in_full, share, summed
from engine.tf.optimizer_step import Update, chosen_optimizer
from engine.tf.random_streams import Streams
from engine.tf.tf_strategy import TfStrategy
from engine.training import sample_order
from engine.worker.session import WorkerSession


class TfTrainer(StaysOnDevices):
    """Model, optimizer and data of all replicas; see `engine.training.protocols.Trainer`."""

    def __init__(self, session: WorkerSession, strategy: TfStrategy) -> None:
        spec = session.spec
        self._spec = spec
        self._session = session
        self._device_names = session.devices
        self._scope = self._make_scope(session, strategy)
        set_numerics(spec)
        keras.utils.set_random_seed(spec.seed)
        recipe = session.load_recipe()

        def bound(name: str, default: Callable[..., Any]) -> Callable[..., Any]:
            """A function of the recipe's, with the settings that it takes."""
            function = getattr(recipe, name, default)
            return partial(function, **session.settings_for(function))

        def traced(name: str, default: Callable[..., Any]) -> Callable[..., Any]:
            """The same for one that becomes part of a graph: it may ask what a tensor holds."""
            return with_autograph(bound(name, default)) if hasattr(recipe, name) else default

        given = recipe.datasets(**session.settings_for(recipe.datasets))
        self._train, self._validation = data_sets(given)
        self._loss = traced("loss", defaults.loss(self._train.has_classes))
        self._metrics = traced("metrics", defaults.metrics)
        with self._scope.scope():
            Streams.prepare(spec.seed)
            self._model = self._make_model(recipe)
            if not self._model.built:
                self._model(self._train.batch(tf.constant([0]))[0])
            self._variables = self._model.trainable_variables
            made = chosen_optimizer(spec)
            if made is None:
                made = bound("optimizer", defaults.optimizer)(self._variables, spec.learning_rate)
            self._update = Update(made, self._variables, spec)
            self._optimizer = self._update.optimizer
        self._streams = Streams(self._scope, self._model, session.rank)
        self._statistics = Statistics(self._scope, self._model)
        self._order: tuple[int, tf.Tensor] = (-1, tf.constant([], tf.int64))
        self._everything = tf.range(len(self._validation), dtype=tf.int64)
        self._figures: list[str] = []
        self._names: list[str] = []
        self._sums = np.zeros(0)
        self.replicas = strategy.replicas(spec.slots)
        self.steps_per_epoch = sample_order.batches_per_epoch(len(self._train), spec.batch_size)
        self.validation_batches = sample_order.batches_per_epoch(
            len(self._validation), spec.batch_size
        )
        self.parameters = int(sum(np.prod(variable.shape) for variable in self._variables))
        counter = tf.TensorSpec((), tf.int64)
        indices = tf.TensorSpec((None,), tf.int64)
        rates = tf.TensorSpec((None,), tf.float32)
        # One trace for every chunk length: the length is a tensor.
        self._steps = graph(self._many_steps, input_signature=[indices, counter, rates])
        self._batches = graph(self._many_batches, input_signature=[indices, counter, counter])
        self._computed = (
            graph(self._part_gradients, jit_compile=True) if spec.compile else self._part_gradients
        )

    def _make_scope(self, session: WorkerSession, strategy: TfStrategy) -> Any:
        """The `tf.distribute.Strategy`, over devices that exist from here on."""
        spec = session.spec
        return strategy.build_for(configure(session.devices, spec.memory_limit_mib), spec)

    def _make_model(self, recipe: ModuleType) -> keras.Model:
        return recipe.model(**self._session.settings_for(recipe.model))

    def run_steps(self, position: Position, count: int) -> dict[str, list[float]]:
        if self._order[0] != position.epoch:
            order = sample_order.epoch_order(len(self._train), self._spec.seed, position.epoch)
            self._order = (position.epoch, tf.constant(order))
        rates = self._rates(position, count)
        values = self._steps(self._order[1], tf.constant(position.batch, tf.int64), rates).numpy()
        return dict(zip(self._figures, values.T.tolist(), strict=True))

    def rank_metrics(self) -> dict[str, float]:
        return memory_figures()

    def begin_validation(self) -> None:
        self._statistics.sync_buffers()
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
        self._statistics.sync_buffers()
        if self._session.rank == 0:
            training_state.save(folder, self._model, self._optimizer)
        training_state.save_own(folder, self._session.rank, self._streams)

    def restore(self, folder: Path) -> None:
        training_state.restore(folder, self._model, self._optimizer)
        self._update.take_rate_back()
        training_state.restore_own(folder, self._session.rank, self._streams)

    def empty_cache(self) -> dict[str, int]:
        return empty_cache(self._device_names)

    def agree(self, word: tuple[int, int]) -> tuple[int, int]:
        return word  # one process: there is nobody else

    def close(self) -> None:
        pass  # there is nobody else

    def _rates(self, position: Position, count: int) -> tf.Tensor:
        """The learning rates of the next `count` steps."""
        total_steps = position.total_steps(self.steps_per_epoch, self._spec.epochs)
        return self._update.rates(position.step, count, total_steps)

    def _many_steps(self, order: tf.Tensor, first: tf.Tensor, rates: tf.Tensor) -> tf.Tensor:
        """The figures of one step for every rate, of shape (steps, figures)."""
        count = tf.size(rates)

        def one_more(k: tf.Tensor, rows: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
            whole = self._global_batch(order, first + tf.cast(k, tf.int64))
            return k + 1, rows.write(k, self._step(whole, rates[k]))

        start = (tf.constant(0), tf.TensorArray(tf.float32, size=count))
        _, rows = tf.while_loop(lambda k, rows: k < count, one_more, start)
        return rows.stack()

    def _step(self, whole: tf.Tensor, rate: tf.Tensor) -> tf.Tensor:
        """One optimizer step over a global batch; its figures."""
        skips = self._spec.on_nan == "skip"
        before = self._statistics.now() if skips else []
        loss, gradients = self._step_gradients(whole)
        finite = self._update.is_finite(loss, gradients) if skips else None
        figures = {"loss": loss} | self._update.apply(gradients, rate, finite)
        if finite is not None:
            self._statistics.take_back(before, unless=finite)
        self._figures = list(figures)
        return tf.stack(list(figures.values()))

    def _many_batches(self, order: tf.Tensor, first: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
        def one_more(k: tf.Tensor, sums: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return k + 1, sums + self._batch_sums(self._global_batch(order, first + k))

        start = (tf.constant(1, tf.int64), self._batch_sums(self._global_batch(order, first)))
        return tf.while_loop(lambda k, sums: k < count, one_more, start)[1]

    def _step_gradients(self, whole: tf.Tensor) -> Gradients:
        """Loss of a global batch and its gradients, summed over all replicas."""
        loss, gradients = self._scope.run(self._replica_step, args=(whole,))
        # The gradients are summed: every replica has the same, and the update takes any.
        first = [self._scope.experimental_local_results(gradient)[0] for gradient in gradients]
        return self._scope.reduce("SUM", loss, axis=None), first

    def _batch_sums(self, whole: tf.Tensor) -> tf.Tensor:
        """Loss and metrics, each times the number of samples, summed over all replicas."""
        sums = self._scope.run(self._replica_validation, args=(whole,))
        return self._scope.reduce("SUM", sums, axis=None)

    def _global_batch(self, order: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
        """`engine.training.sample_order.global_batch`, in the graph."""
        size = self._spec.batch_size
        return order[number * size : (number + 1) * size]

    def _share(self, whole: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The part of a global batch that this replica computes, and how many samples it is."""
        return share(whole, _replica(), self.replicas)

    def _replica_step(self, whole: tf.Tensor) -> Gradients:
        """This replica's part of the loss, and the gradients summed over all replicas."""
        self._streams.enter_replica()
        loss, gradients = self._own_gradients(whole, _replica())
        return loss, tf.distribute.get_replica_context().all_reduce("SUM", gradients)

    def _replica_validation(self, whole: tf.Tensor) -> tf.Tensor:
        self._streams.enter_replica()
        return self._own_sums(whole, _replica())

    def _own_gradients(self, whole: tf.Tensor, replica: Any) -> Gradients:
        """One replica's part of the loss of a global batch, and its gradients."""
        steps = self._spec.accumulation

        def part(step: Any) -> Gradients:
            number = step * self.replicas + replica
            mine, count = share(whole, number, steps * self.replicas)
            weight = tf.cast(count, tf.float32) / tf.cast(tf.size(whole), tf.float32)
            return self._computed(*self._train.batch(mine), weight)

        return summed(part, steps, self._variables)

    def _part_gradients(self, inputs: Any, targets: Any, weight: tf.Tensor) -> Gradients:
        """Loss of some samples times their `weight` in the global batch, and its gradients.

        The gradients are scaled as the optimizer wants them.
        """
        with tf.GradientTape() as tape:
            loss = self._weighted_loss(self._model(inputs, training=True), targets, weight)
            total = loss
            if self._model.losses:  # regularisation is no matter of samples: each adds its part
                added = [tf.cast(more, tf.float32) for more in self._model.losses]
                total += tf.add_n(added) / (self.replicas * self._spec.accumulation)
            total = self._optimizer.scale_loss(total)
        gradients = tape.gradient(total, self._variables)
        # None: the loss does not depend on this variable. Other gradients may be sparse.
        dense = [
            tf.zeros(variable.shape, variable.dtype) if g is None else tf.convert_to_tensor(g)
            for g, variable in zip(gradients, self._variables, strict=True)
        ]
        return loss, dense

    def _weighted_loss(self, outputs: Any, targets: Any, weight: tf.Tensor) -> tf.Tensor:
        """What these samples add to the mean loss over the global batch, in float32.

        Summed over all parts it is that mean, however uneven the parts are.
        """
        return tf.cast(tf.reduce_mean(self._loss(in_full(outputs), targets)), tf.float32) * weight

    def _own_sums(self, whole: tf.Tensor, replica: Any) -> tf.Tensor:
        """Loss and metrics of one replica's samples, each times their number."""
        mine, count = share(whole, replica, self.replicas)
        return self._means(*self._validation.batch(mine)) * tf.cast(count, tf.float64)

    def _means(self, inputs: Any, targets: Any) -> tf.Tensor:
        """Loss and metrics of some samples, in float64, in the order of `self._names`."""
        outputs = in_full(self._model(inputs, training=False))
        values = {"loss": tf.reduce_mean(self._loss(outputs, targets))}
        values |= self._metrics(outputs, targets)
        self._names = list(values)
        return tf.stack([tf.cast(value, tf.float64) for value in values.values()])


def _replica() -> tf.Tensor:
    """The number of the replica that this is traced for."""
    return tf.distribute.get_replica_context().replica_id_in_sync_group
