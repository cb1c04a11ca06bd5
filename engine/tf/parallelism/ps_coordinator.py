"""The coordinator of a ParameterServerStrategy: schedules each step on a free worker, and waits for
all workers between two chunks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from engine.runs.checkpoints.checkpoint_files import Position
from engine.tf.graph import graph
from engine.tf.parallel import Parallel
from engine.tf.parallelism.cluster import LOOPBACK, rank_addresses, restrict_ports
from engine.tf.parallelism.ps_channel import CoordinatorChannel, meeting
from engine.tf.parallelism.wait_limit import WaitLimit
from engine.tf.recipe.objective import LOSS
from engine.tf.replica import Replica
from engine.tf.samples.batch_stream import BatchStream, DataSet
from engine.tf.samples.data import Batch, rows, samples_in
from engine.tf.samples.reader import ANY_EPOCH, StreamReader
from engine.training import sample_order
from engine.training.errors import TrainingFailed
from engine.worker import environment

MAX_STEPS_IN_FLIGHT = 64
"""The number of scheduled steps; limited because this process holds their batches in memory."""

JOIN_TIMEOUT = 600.0
"""Longest time in seconds for these steps, with compilation; after that, a worker hangs."""


class CoordinatorParallel(Parallel):
    """Asynchronous data parallel: one worker computes a whole global batch and updates at once.

    Other workers may have changed the variables since this worker read them.
    """

    def __init__(self, tasks: Mapping[int, tuple[str, int]]) -> None:
        """Wait until all `tasks` (job and task index by rank) have joined."""
        tf.config.set_visible_devices([], "GPU")  # the workers use them
        rendezvous = Path(os.environ[environment.RENDEZVOUS])
        self._channel = CoordinatorChannel(rendezvous, len(tasks), meeting())
        addresses = rank_addresses()
        jobs: dict[str, list[str]] = {}
        for rank, (job, _) in tasks.items():
            host = addresses[rank].rpartition(":")[0] if addresses else LOOPBACK
            jobs.setdefault(job, []).append(f"{host}:{self._channel.ports[rank]}")
        cluster = tf.distribute.cluster_resolver.SimpleClusterResolver(
            tf.train.ClusterSpec(jobs), rpc_layer="grpc"
        )
        super().__init__(tf.distribute.ParameterServerStrategy(cluster))
        restrict_ports()  # at once: what follows takes seconds

    def make_loop(self, replica: Replica) -> CoordinatorLoop:
        return CoordinatorLoop(self.distribution, replica, self._channel)

    def note_validated(self, batches: int) -> None:
        self._channel.broadcast([batches])

    def agree(self, control_word: tuple[int, int]) -> tuple[int, int]:
        self._channel.broadcast([*control_word])
        return control_word

    def close(self) -> None:
        self._channel.close()


class CoordinatorLoop:
    """See `engine.tf.parallel.StepLoop`: schedules every step on a worker."""

    def __init__(
        self,
        distribution: tf.distribute.ParameterServerStrategy,
        replica: Replica,
        channel: CoordinatorChannel,
    ) -> None:
        self._distribution = distribution
        self._replica = replica
        self._channel = channel
        with distribution.scope():
            # Keras' `optimizer.iterations` loses counts when workers update at the same time.
            self._updates = tf.Variable(
                0,
                dtype=tf.int64,
                trainable=False,
                aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
            )
        self._start: int | None = None
        """The step at which `_updates` began to count."""

        self._step_metric_names: list[str] = []
        self.sizes: list[float] = []
        self._coordinator = tf.distribute.coordinator.ClusterCoordinator(distribution)
        self._wait_limit = WaitLimit()
        step, rate = tf.TensorSpec((), tf.int64), tf.TensorSpec((), tf.float32)
        train = _batch_signature(replica.train)
        self._train_step = self._traced(self._update, [train, step, rate])
        self._validation_steps = {
            name: self._traced(self._validate, [_batch_signature(data)])
            for name, data in replica.validation.items()
        }
        self._readers = {
            id(data): StreamReader(data)
            for data in (replica.train, *replica.validation.values())
            if isinstance(data, BatchStream)
        }
        self._order: tuple[int, int, sample_order.Indices] = (0, ANY_EPOCH, np.arange(0))
        self.epoch_ended = False
        restrict_ports()
        batches = replica.all_validation_batches
        channel.broadcast([replica.steps_per_epoch, batches, replica.parameters])

    def run_steps(self, position: Position, count: int) -> dict[str, list[float]]:
        replica = self._replica
        if position.batch == 0:
            replica.objective.reset_metrics()
        rates = replica.learning_rates(position, count)
        if self._start is None:
            self._start = position.step

        def schedule(number: int) -> Any:
            batch = self._batch(replica.train, position.epoch, position.batch + number)
            if batch is None:
                self.epoch_ended = True
                return None
            step = tf.constant(position.step + number, tf.int64)
            return self._coordinator.schedule(self._train_step, args=(batch, step, rates[number]))

        # Sort by update number, the order in which the updates reached the servers.
        self.epoch_ended = False
        updates = sorted(map(np.ndarray.tolist, self._results(schedule, count)))
        self._check_count(position.step + len(updates), self._start)
        if not updates:
            self._channel.broadcast([float(self.epoch_ended)])
            self.sizes = []
            return {LOSS: []}
        _, sizes, *columns = zip(*updates, strict=True)
        self.sizes = list(sizes)
        metrics = {n: list(c) for n, c in zip(self._step_metric_names, columns, strict=True)}
        self._channel.broadcast([float(self.epoch_ended), *metrics[LOSS]])
        return metrics | {name: [value] for name, value in self.metric_results().items()}

    def validation_sums(self, name: str, batch: int, count: int) -> list[npt.NDArray[np.float64]]:
        data = self._replica.validation[name]
        if batch == 0 and (reader := self._readers.get(id(data))):
            reader.restart()

        def schedule(number: int) -> Any:
            found = self._batch(data, ANY_EPOCH, batch + number)
            if found is None:
                return None
            return self._coordinator.schedule(self._validation_steps[name], args=(found,))

        return list(self._results(schedule, count))

    def _batch(self, data: DataSet, epoch: int, number: int) -> Batch | None:
        """Return a batch of an epoch; None if the data have ended before."""
        if isinstance(data, BatchStream):
            return self._readers[id(data)].take(epoch, number)
        seed, size = self._replica.spec.seed, self._replica.spec.batch_size
        if self._order[:2] != (id(data), epoch):
            is_training = epoch != ANY_EPOCH
            order = (
                sample_order.epoch_order(len(data), seed, epoch)
                if is_training
                else np.arange(len(data))
            )
            self._order = (id(data), epoch, order)
        return data.batch(tf.constant(sample_order.global_batch(self._order[2], number, size)))

    def metric_results(self) -> dict[str, float]:
        found = self._replica.objective.metric_results()
        return {name: float(value) for name, value in found.items()}

    def close(self) -> None:
        return

    def _traced(self, function: Callable[..., tf.Tensor], signature: list[Any]) -> Any:
        """Return `function` for the workers, traced and registered with them.

        The registration holds the GIL until all workers answer. Later, a worker that hangs would
        also stop the sign of life of this process; now the supervisor does not expect it yet.
        """

        def in_replica(*args: tf.Tensor) -> tf.Tensor:
            return self._distribution.run(function, args=args)

        traced = graph(in_replica, input_signature=signature)
        # Without this, TensorFlow warns of steps on the coordinator, which only traces them.
        self._distribution.extended._allow_run_without_coordinator = True
        with self._distribution.scope():
            traced.get_concrete_function()
        return traced

    def _results(
        self, schedule: Callable[[int], Any], count: int
    ) -> Iterator[npt.NDArray[np.float64]]:
        """Schedule steps 0 ... `count - 1`, wait for all of them, and yield their results.

        It ends early if `schedule` returns None.
        """
        for first in range(0, count, MAX_STEPS_IN_FLIGHT):
            wanted = range(first, min(count, first + MAX_STEPS_IN_FLIGHT))
            results = list(takewhile(lambda result: result is not None, map(schedule, wanted)))
            self._join()
            yield from (result.fetch() for result in results)
            if len(results) < len(wanted):
                return

    def _join(self) -> None:
        """Wait for all scheduled steps; `ClusterCoordinator.join` alone could wait for ever."""
        if not self._wait_limit.returns_within(JOIN_TIMEOUT, self._coordinator.join):
            raise TrainingFailed(
                f"The workers did not finish their steps within {JOIN_TIMEOUT:.0f} s: one of them "
                "hangs. Resume from the last checkpoint."
            )

    def _check_count(self, steps: int, start: int) -> None:
        """Set Keras' step counter. Raises TrainingFailed if an update is missing or repeated."""
        updates = start + int(self._updates.numpy())
        if updates != steps:
            raise TrainingFailed(
                f"{steps} steps were scheduled, but {updates} updates reached the parameter "
                "servers: TensorFlow lost or repeated some. Resume from the last checkpoint."
            )
        self._replica.optimizer.iterations.assign(steps)

    def _update(self, batch: Batch, step: tf.Tensor, rate: tf.Tensor) -> tf.Tensor:
        """Do the update of step `step` (from 0); return its update number, and its metrics."""
        replica = self._replica
        replica.streams.use_global_stream()
        sums = replica.gradients(
            tf.range(samples_in(batch)), lambda indices: rows(batch, indices), 0
        )
        figures, gradients = replica.figures(sums)
        replica.optimizer.iterations.assign(step)
        metrics = figures | replica.optimizer_step.apply(gradients, rate)
        self._step_metric_names = list(metrics)
        with tf.control_dependencies([self._updates.assign_add(1)]):
            update_number = self._updates.read_value()
        values = (update_number, samples_in(batch), *metrics.values())
        return tf.stack([tf.cast(value, tf.float64) for value in values])

    def _validate(self, batch: Batch) -> tf.Tensor:
        """Return loss and metrics of a validation batch, each times its weight."""
        self._replica.streams.use_global_stream()
        indices = tf.range(samples_in(batch))
        sums = self._replica.metric_sums(indices, lambda chosen: rows(batch, chosen), 0)
        return self._replica.of_batch(sums, indices)


def _batch_signature(data: DataSet) -> Any:
    """Return the specs of a batch of any size."""
    if isinstance(data, BatchStream):
        return data.element_spec
    return tf.nest.map_structure(
        lambda tensor: tf.TensorSpec((None, *tensor.shape[1:]), tensor.dtype),
        data.sample,
    )
