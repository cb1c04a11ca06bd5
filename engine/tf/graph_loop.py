"""Our own loop over steps: K steps inside one `tf.function` call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from engine.runs.checkpoints.checkpoint_files import Position
from engine.tf.graph import graph
from engine.tf.recipe.objective import LOSS, Figures
from engine.tf.replica import Replica
from engine.tf.samples.batch_stream import BatchStream, DataSet
from engine.tf.samples.data import Batch
from engine.tf.samples.reader import ANY_EPOCH, ArrayReader, Fetch, OnBatch, Reader, StreamReader

if TYPE_CHECKING:
    from engine.tf.parallel import Parallel


class GraphLoop:
    """See `engine.tf.parallel.StepLoop`; a `Parallel` computes gradients and sums."""

    def __init__(self, parallel: Parallel, replica: Replica) -> None:
        self._parallel = parallel
        self._replica = replica
        self._step_metric_names: list[str] = []
        self.sizes: list[float] = []
        self._train = self._reader(replica.train, self._step, seed=replica.spec.seed)
        self._validation = {
            name: self._reader(data, self._sums, seed=None)
            for name, data in replica.validation.items()
        }
        self._results_graph = graph(replica.objective.metric_results, input_signature=[])

    @property
    def epoch_ended(self) -> bool:
        return self._train.has_ended

    def run_steps(self, position: Position, count: int) -> dict[str, list[float]]:
        replica = self._replica
        if position.batch == 0:
            replica.objective.reset_metrics()
        rates = replica.learning_rates(position, count)
        values = self._train.run(position.epoch, position.batch, rates)
        if not len(values):
            self.sizes = []
            return {LOSS: []}
        *columns, self.sizes = values.T.tolist()
        found = dict(zip(self._step_metric_names, columns, strict=True))
        # Keras' means since the begin of the epoch: one value, of the last step.
        return found | {name: [value] for name, value in self.metric_results().items()}

    def validation_sums(self, name: str, batch: int, count: int) -> list[npt.NDArray[np.float64]]:
        reader = self._validation[name]
        if batch == 0:
            reader.restart()
        return list(reader.run(ANY_EPOCH, batch, tf.zeros((count,))))

    def metric_results(self) -> dict[str, float]:
        if not self._replica.objective.metric_objects:
            return {}
        return {name: float(value) for name, value in self._results_graph().items()}

    def close(self) -> None:
        return

    def _reader(self, data: DataSet, on_batch: OnBatch, *, seed: int | None) -> Reader:
        """Return what reads `data`, shuffled by `seed`, or in its order."""
        if isinstance(data, BatchStream):
            return StreamReader(data, on_batch)
        return ArrayReader(data, self._replica.spec.batch_size, seed, on_batch)

    def _step(self, batch: tf.Tensor, fetch: Fetch, rate: tf.Tensor) -> tf.Tensor:
        """Do one optimizer step over a global batch; return its metrics and number of samples."""
        replica = self._replica
        if replica.objective.updates_weights:
            return self._step_of_model(batch, fetch, rate)
        skips = replica.spec.on_nan == "skip"
        before = replica.statistics.snapshot() if skips else []
        sums = self._parallel.step_gradients(replica, batch, fetch)
        figures, gradients = replica.figures(sums)
        finite = replica.optimizer_step.is_finite(figures[LOSS], gradients) if skips else None
        metrics = figures | replica.optimizer_step.apply(gradients, rate, finite)
        if finite is not None:
            replica.statistics.restore_unless(finite, before)
        self._step_metric_names = list(metrics)
        return tf.stack([*metrics.values(), tf.cast(tf.size(batch), tf.float32)])

    def _step_of_model(self, batch: tf.Tensor, fetch: Fetch, rate: tf.Tensor) -> tf.Tensor:
        """Let the model do a step over a batch; return what `_step` returns. For one replica."""
        replica = self._replica
        metrics = replica.optimizer_step.begin(rate) if replica.objective.shows_rate else {}

        def update(samples: Batch) -> Figures:
            replica.streams.use_global_stream()
            found: Figures = self._parallel.distribution.run(
                replica.objective.update, args=(samples,)
            )
            return found

        metrics |= graph(update, jit_compile=replica.spec.compile or None)(fetch(batch))
        self._step_metric_names = list(metrics)
        return tf.stack([*metrics.values(), tf.cast(tf.size(batch), tf.float32)])

    def _sums(self, batch: tf.Tensor, fetch: Fetch, option: tf.Tensor) -> tf.Tensor:
        """Return loss and metrics of a validation batch, each times its weight."""
        sums = self._parallel.batch_sums(self._replica, batch, fetch)
        return self._replica.of_batch(sums, batch)
