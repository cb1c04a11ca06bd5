"""Training with Keras' own `fit` under MirroredStrategy, with the result of one device."""

from __future__ import annotations

from functools import partial

import keras
import tensorflow as tf

from engine.runs.checkpoint_files import Position
from engine.tf.graph_loop import GraphLoop, global_batch
from engine.tf.local_batch import local_batch
from engine.tf.parallel import Parallel
from engine.tf.parallelism.fit_epoch import LOSS, FitEpoch
from engine.tf.replica import Replica, fraction
from engine.training import sample_order
from engine.training.errors import TrainingFailed

_REFUSED_SETTINGS = {
    "clipnorm": "clips every replica's gradients before they are summed",
    "global_clipnorm": "clips every replica's gradients before they are summed",
    "clipvalue": "clips every replica's gradients before they are summed",
    "gradient_accumulation_steps": "cannot accumulate gradients",
    "use_ema": "writes the averages over the weights whenever it ends",
}
"""Settings of a Keras optimizer with which `fit` trains wrongly, and what `fit` does then."""


class FitParallel(Parallel):
    """Replicas under MirroredStrategy that Keras' `fit` trains."""

    def make_loop(self, replica: Replica) -> FitLoop:
        return FitLoop(self, replica)


class FitModel(keras.Model):  # type: ignore[misc]
    """The recipe's model for `fit`: its inputs are the sample indices of a global batch.

    Each replica gets all indices and selects its local batch, as in the other strategies. The loss
    is weighted by the size of the local batch; `fit` alone would weight all local batches equally.
    """

    def __init__(self, replica: Replica) -> None:
        super().__init__()
        self._inner = replica.model
        self._replica = replica
        self.built = True  # the recipe's model is built

    def call(self, indices: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """Return the outputs for this replica's local batch."""
        self._replica.streams.use_global_stream()
        inputs, _ = self._replica.train.batch(self._local_batch(indices)[0])
        return self._inner(inputs, training=training)

    def compute_loss(
        self,
        x: tf.Tensor = None,
        y: None = None,
        y_pred: tf.Tensor = None,
        sample_weight: None = None,
        training: bool = True,
    ) -> tf.Tensor:
        """Return this replica's part of the loss; `fit` sums the gradients over the replicas."""
        loss = self._part_of_loss(x, y_pred)
        if self.losses:  # each replica adds an equal part of the regularisation
            penalties = [tf.cast(penalty, tf.float32) for penalty in self.losses]
            loss += tf.add_n(penalties) / self._replica.replicas
        return loss

    def compute_metrics(
        self, x: tf.Tensor, y: None, y_pred: tf.Tensor, sample_weight: None = None
    ) -> dict[str, tf.Tensor]:
        """Return the log of a batch: `fit` averages over the replicas, so multiply for the sum."""
        return {LOSS: self._part_of_loss(x, y_pred) * self._replica.replicas}

    def _local_batch(self, indices: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        number = tf.distribute.get_replica_context().replica_id_in_sync_group
        return local_batch(indices, number, self._replica.replicas)

    def _part_of_loss(self, indices: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        local, count = self._local_batch(indices)
        _, targets = self._replica.train.batch(local)
        return self._replica.weighted_loss(outputs, targets, fraction(count, indices))


class FitLoop(GraphLoop):
    """Trains with one call of `fit` per epoch; validates like `GraphLoop`."""

    def __init__(self, parallel: Parallel, replica: Replica) -> None:
        """Raises TrainingFailed for an optimizer with which `fit` would train wrongly."""
        super().__init__(parallel, replica)
        self._distribution = parallel.distribution
        with self._distribution.scope():
            self._model = FitModel(replica)
            self._model.compile(replica.optimizer, jit_compile=False)
        _check_optimizer(self._model.optimizer)
        self._epoch: FitEpoch | None = None

    def run_steps(self, position: Position, count: int) -> dict[str, list[float]]:
        if self._epoch is None:
            self._epoch = FitEpoch(partial(self._fit, position.epoch, position.batch))
        losses = self._epoch.train(count)
        if position.batch + count == self._replica.steps_per_epoch:
            self._epoch.finish()
            self._epoch = None
        return {"loss": losses}

    def close(self) -> None:
        if self._epoch is not None:
            self._epoch.leave()

    def _fit(self, epoch: int, first: int, callback: keras.callbacks.Callback) -> None:
        """Train on the batches of `epoch` from `first` on."""
        spec, samples = self._replica.spec, len(self._replica.train)
        order = tf.constant(sample_order.epoch_order(samples, spec.seed, epoch))
        # Repeat the data: after its end, `fit` would do one more step, with weight decay only.
        batches = (
            tf.data.Dataset.range(first, self._replica.steps_per_epoch)
            .map(lambda number: global_batch(order, number, spec.batch_size))
            .repeat()
        )
        # Each replica reads all indices on the host, where the samples are.
        for_each_replica = tf.distribute.InputOptions(
            experimental_fetch_to_device=False,
            experimental_replication_mode=tf.distribute.InputReplicationMode.PER_REPLICA,
        )
        self._model.fit(
            self._distribution.distribute_datasets_from_function(
                lambda _: batches, for_each_replica
            ),
            initial_epoch=epoch,
            epochs=epoch + 1,
            steps_per_epoch=self._replica.steps_per_epoch - first,
            shuffle=False,
            verbose=0,
            callbacks=[callback],
        )


def _check_optimizer(optimizer: keras.optimizers.Optimizer) -> None:
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        raise TrainingFailed(
            "Under MirroredStrategy fit spoils the weights when float16 overflows on one replica "
            "only: choose tf/mirrored, or a recipe without float16."
        )
    for setting, effect in _REFUSED_SETTINGS.items():
        if getattr(optimizer, setting, None):
            raise TrainingFailed(
                f"The recipe's optimizer has {setting}, and under MirroredStrategy fit {effect}: "
                "choose tf/mirrored, or leave that setting out of optimizer()."
            )
