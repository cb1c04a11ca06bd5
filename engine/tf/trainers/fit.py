"""Training with Keras' own `fit` under MirroredStrategy, made to train like one device."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import keras
import tensorflow as tf

from engine.runs.checkpoint_files import Position
from engine.tf.tf_strategy import TfStrategy
from engine.tf.trainer import TfTrainer
from engine.tf.trainers.fit_epoch import LOSS, FitEpoch
from engine.training import sample_order
from engine.training.errors import TrainingFailed
from engine.worker.session import WorkerSession

_WRONG = {
    "clipnorm": "clips every replica's gradients before they are summed",
    "global_clipnorm": "clips every replica's gradients before they are summed",
    "clipvalue": "clips every replica's gradients before they are summed",
    "gradient_accumulation_steps": "cannot accumulate gradients",
    "use_ema": "writes the averages over the weights whenever it ends",
}
"""Settings of a Keras optimizer, and what `fit` under MirroredStrategy does with them."""


class FitModel(keras.Model):  # type: ignore[misc]
    """The recipe's model as `fit` trains it: its input are the indices of a global batch.

    Every replica gets all of them and takes its own, so that the shares are those of every other
    strategy, however uneven: `fit` itself would scale each share as if all were equal.
    """

    def __init__(
        self,
        model: keras.Model,
        inputs: Callable[[tf.Tensor], tf.Tensor],
        loss: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
        replicas: int,
    ) -> None:
        """`inputs(indices)` of this replica's share, and `loss(indices, outputs)`: its part of
        the mean over the global batch."""
        super().__init__()
        self._inner = model
        self._inputs_of = inputs
        self._loss_of = loss
        self._replicas = replicas
        self.built = True  # the recipe's model is

    def call(self, indices: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """The outputs for this replica's share."""
        return self._inner(self._inputs_of(indices), training=training)

    def compute_loss(
        self,
        x: tf.Tensor = None,
        y: None = None,
        y_pred: tf.Tensor = None,
        sample_weight: None = None,
        training: bool = True,
    ) -> tf.Tensor:
        """This replica's part of the loss; `fit` sums the parts' gradients."""
        loss = self._loss_of(x, y_pred)
        if self.losses:  # regularisation is no matter of samples: each adds its part
            penalties = [tf.cast(penalty, tf.float32) for penalty in self.losses]
            loss += tf.add_n(penalties) / self._replicas
        return loss

    def compute_metrics(
        self, x: tf.Tensor, y: None, y_pred: tf.Tensor, sample_weight: None = None
    ) -> dict[str, tf.Tensor]:
        """The log of a batch. `fit` takes the mean over the replicas, where we want the sum."""
        return {LOSS: self._loss_of(x, y_pred) * self._replicas}


class FitTrainer(TfTrainer):
    """Trains with one call of `fit` per epoch; everything else is as in our own loop."""

    def __init__(self, session: WorkerSession, strategy: TfStrategy) -> None:
        """Raises TrainingFailed for an optimizer that `fit` would get wrong."""
        super().__init__(session, strategy)
        with self._scope.scope():
            self._fitted = FitModel(self._model, self._inputs, self._part_of_loss, self.replicas)
            self._fitted.compile(self._optimizer, jit_compile=False)
        _refuse(self._fitted.optimizer)
        self._epoch: FitEpoch | None = None

    def run_steps(self, position: Position, count: int) -> dict[str, list[float]]:
        if self._epoch is None:
            self._epoch = FitEpoch(partial(self._fit, position.epoch, position.batch))
        losses = self._epoch.train(count)
        if position.batch + count == self.steps_per_epoch:
            self._epoch.finish()
            self._epoch = None
        return {"loss": losses}

    def close(self) -> None:
        if self._epoch is not None:
            self._epoch.leave()
        super().close()

    def _fit(self, epoch: int, first: int, callback: keras.callbacks.Callback) -> None:
        """Train on the batches of `epoch` from `first` on."""
        order = tf.constant(sample_order.epoch_order(len(self._train), self._spec.seed, epoch))
        # Past its end the data would still have to come: a step that finds none does its weight
        # decay all the same.
        batches = (
            tf.data.Dataset.range(first, self.steps_per_epoch)
            .map(lambda number: self._global_batch(order, number))
            .repeat()
        )
        # Every replica reads all of them by itself, on the host, where the samples are.
        for_each_replica = tf.distribute.InputOptions(
            experimental_fetch_to_device=False,
            experimental_replication_mode=tf.distribute.InputReplicationMode.PER_REPLICA,
        )
        self._fitted.fit(
            self._scope.distribute_datasets_from_function(lambda _: batches, for_each_replica),
            initial_epoch=epoch,
            epochs=epoch + 1,
            steps_per_epoch=self.steps_per_epoch - first,
            shuffle=False,
            verbose=0,
            callbacks=[callback],
        )

    def _inputs(self, whole: tf.Tensor) -> tf.Tensor:
        self._streams.enter_replica()
        return self._train.batch(self._share(whole)[0])[0]

    def _part_of_loss(self, whole: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        mine, count = self._share(whole)
        weight = tf.cast(count, tf.float32) / tf.cast(tf.size(whole), tf.float32)
        return self._weighted_loss(outputs, self._train.batch(mine)[1], weight)


def _refuse(optimizer: keras.optimizers.Optimizer) -> None:
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        raise TrainingFailed(
            "Under MirroredStrategy fit spoils the weights when float16 overflows on one replica "
            "only: choose tf/mirrored, or a recipe without float16."
        )
    for setting, what in _WRONG.items():
        if getattr(optimizer, setting, None):
            raise TrainingFailed(
                f"The recipe's optimizer has {setting}, and under MirroredStrategy fit {what}: "
                "choose tf/mirrored, or leave that setting out of optimizer()."
            )
