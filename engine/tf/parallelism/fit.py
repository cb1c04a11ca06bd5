"""Training with Keras' own `fit` under MirroredStrategy, with the result of one device."""

from __future__ import annotations

from functools import partial
from threading import local

import keras
import tensorflow as tf

from engine.runs.checkpoints.checkpoint_files import Position
from engine.tf.graph_loop import GraphLoop
from engine.tf.parallel import Parallel
from engine.tf.parallelism.fit_epoch import BATCH, FitEpoch
from engine.tf.recipe.objective import StepObjective, penalties_of
from engine.tf.replica import Replica
from engine.tf.samples.data import ArraySamples
from engine.tf.samples.local_batch import Share
from engine.tf.samples.reader import global_batch
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
        self._samples = _samples(replica)
        self._of_thread = local()  # MirroredStrategy has one for each replica
        self.built = True  # the recipe's model is built

    def call(self, indices: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """Return the outputs for this replica's local batch."""
        self._replica.streams.use_global_stream()
        batch = self._samples.batch(self._local_batch(indices)[0])
        inputs, _, _ = keras.utils.unpack_x_y_sample_weight(batch)
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
        indices, share = self._local_batch(x)
        batch = self._samples.batch(indices)
        objective = self._replica.objective
        loss = objective.loss_of(batch, y_pred, share, penalties_of(self._inner))
        self._of_thread.values, minimised = self._replica.weighted(loss, share)
        return minimised

    def compute_metrics(
        self, x: tf.Tensor, y: None, y_pred: tf.Tensor, sample_weight: None = None
    ) -> dict[str, tf.Tensor]:
        """Return the log of a batch: `fit` averages over the replicas, so multiply for the sum."""
        values = self._of_thread.values * self._replica.replicas
        return dict(
            zip(map(BATCH.__add__, self._replica.objective.names), tf.unstack(values), strict=True)
        )

    def _local_batch(self, indices: tf.Tensor) -> tuple[tf.Tensor, Share]:
        number = tf.distribute.get_replica_context().replica_id_in_sync_group
        return self._replica.local_batch(indices, number, self._replica.replicas)


class FitLoop(GraphLoop):
    """Trains with one call of `fit` per epoch; validates like `GraphLoop`."""

    def __init__(self, parallel: Parallel, replica: Replica) -> None:
        """Raises TrainingFailed for what `fit` would train wrongly."""
        _check_objective(replica)
        super().__init__(parallel, replica)
        self._distribution = parallel.distribution
        with self._distribution.scope():
            self._model = FitModel(replica)
            self._model.compile(replica.optimizer, jit_compile=False)
        _check_optimizer(self._model.optimizer)
        self._epoch: FitEpoch | None = None

    def run_steps(self, position: Position, count: int) -> dict[str, list[float]]:
        if position.batch == 0:
            self._replica.objective.reset_metrics()
        if self._epoch is None:
            self._epoch = FitEpoch(partial(self._fit, position.epoch, position.batch))
        found = self._epoch.train(count)
        samples, size = len(_samples(self._replica)), self._replica.spec.batch_size
        batches = range(position.batch, position.batch + count)
        self.sizes = [float(min(size, samples - batch * size)) for batch in batches]
        if position.batch + count == self._replica.steps_per_epoch:
            self._epoch.finish()
            self._epoch = None
        return found | {name: [value] for name, value in self.metric_results().items()}

    def close(self) -> None:
        if self._epoch is not None:
            self._epoch.leave()

    def _fit(self, epoch: int, first: int, callback: keras.callbacks.Callback) -> None:
        """Train on the batches of `epoch` from `first` on."""
        spec, samples = self._replica.spec, len(_samples(self._replica))
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


def _samples(replica: Replica) -> ArraySamples:
    """Return the training data. Raises TrainingFailed if they are no arrays."""
    if isinstance(replica.train, ArraySamples):
        return replica.train
    raise TrainingFailed(
        "Under MirroredStrategy fit reads tf.data and PyDataset once for each replica, in another "
        "order for each if they are shuffled: choose tf/mirrored, or give arrays."
    )


def _check_objective(replica: Replica) -> None:
    if isinstance(replica.objective, StepObjective):
        raise TrainingFailed(
            "fit has its own step, and the recipe has step(model, batch): choose tf/mirrored."
        )
    if replica.objective.is_weighted:
        raise TrainingFailed(
            "Under MirroredStrategy fit sums the gradients of the replicas before their weights "
            "(masks, or weight(batch) of the recipe) are known: choose tf/mirrored."
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
