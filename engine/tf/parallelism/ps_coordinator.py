"""The coordinator of a ParameterServerStrategy: schedules each step on a free worker, and waits for
all workers between two chunks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from engine.runs.checkpoint_files import Position
from engine.tf.data import ArraySamples
from engine.tf.graph import graph
from engine.tf.parallel import Parallel
from engine.tf.parallelism.cluster import LOOPBACK, restrict_ports_to_loopback
from engine.tf.parallelism.ps_channel import CoordinatorChannel
from engine.tf.parallelism.wait_limit import WaitLimit
from engine.tf.replica import Replica
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
        self._channel = CoordinatorChannel(Path(os.environ[environment.RENDEZVOUS]), len(tasks))
        jobs: dict[str, list[str]] = {}
        for rank, (job, _) in tasks.items():
            jobs.setdefault(job, []).append(f"{LOOPBACK}:{self._channel.ports[rank]}")
        cluster = tf.distribute.cluster_resolver.SimpleClusterResolver(
            tf.train.ClusterSpec(jobs), rpc_layer="grpc"
        )
        super().__init__(tf.distribute.ParameterServerStrategy(cluster))
        restrict_ports_to_loopback()  # at once: what follows takes seconds

    def make_loop(self, replica: Replica) -> CoordinatorLoop:
        return CoordinatorLoop(self.distribution, replica, self._channel)

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
        self._coordinator = tf.distribute.coordinator.ClusterCoordinator(distribution)
        self._wait_limit = WaitLimit()
        step, rate = tf.TensorSpec((), tf.int64), tf.TensorSpec((), tf.float32)
        train, validation = _batch_signature(replica.train), _batch_signature(replica.validation)
        self._train_step = self._traced(self._update, [*train, step, rate])
        self._validation_step = self._traced(self._validate, validation)
        restrict_ports_to_loopback()
        channel.broadcast([replica.steps_per_epoch, replica.validation_batches, replica.parameters])

    def run_steps(self, position: Position, count: int) -> dict[str, list[float]]:
        replica, spec = self._replica, self._replica.spec
        order = sample_order.epoch_order(len(replica.train), spec.seed, position.epoch)
        rates = replica.learning_rates(position, count)
        if self._start is None:
            self._start = position.step

        def schedule(number: int) -> Any:
            batch = sample_order.global_batch(order, position.batch + number, spec.batch_size)
            inputs, targets = replica.train.batch(tf.constant(batch))
            step = tf.constant(position.step + number, tf.int64)
            return self._coordinator.schedule(
                self._train_step, args=(inputs, targets, step, rates[number])
            )

        # Sort by update number, the order in which the updates reached the servers.
        updates = sorted(map(np.ndarray.tolist, self._results(schedule, count)))
        self._check_count(position.step + count, self._start)
        _, *columns = zip(*updates, strict=True)
        metrics = {n: list(c) for n, c in zip(self._step_metric_names, columns, strict=True)}
        self._channel.broadcast(metrics["loss"])
        return metrics

    def validation_sums(self, batch: int, count: int) -> npt.NDArray[np.float64]:
        samples = self._replica.validation
        order = np.arange(len(samples))

        def schedule(number: int) -> Any:
            size = self._replica.spec.batch_size
            indices = sample_order.global_batch(order, batch + number, size)
            args = samples.batch(tf.constant(indices))
            return self._coordinator.schedule(self._validation_step, args=args)

        sums: npt.NDArray[np.float64] = np.sum([*self._results(schedule, count)], axis=0)
        return sums

    def close(self) -> None:
        return

    def _traced(self, function: Callable[..., tf.Tensor], signature: list[tf.TensorSpec]) -> Any:
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
        """Schedule steps 0 ... `count - 1`, wait for all of them, and yield their results."""
        for first in range(0, count, MAX_STEPS_IN_FLIGHT):
            results = [schedule(k) for k in range(first, min(count, first + MAX_STEPS_IN_FLIGHT))]
            self._join()
            yield from (result.fetch() for result in results)

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

    def _update(
        self, inputs: tf.Tensor, targets: tf.Tensor, step: tf.Tensor, rate: tf.Tensor
    ) -> tf.Tensor:
        """Do the update of step `step` (from 0); return its update number, and its metrics."""
        replica = self._replica
        replica.streams.use_global_stream()
        loss, gradients = replica.gradients(
            tf.range(tf.shape(targets)[0]),
            0,
            lambda indices: (tf.gather(inputs, indices), tf.gather(targets, indices)),
        )
        replica.optimizer.iterations.assign(step)
        metrics = {"loss": loss} | replica.optimizer_step.apply(gradients, rate)
        self._step_metric_names = list(metrics)
        with tf.control_dependencies([self._updates.assign_add(1)]):
            update_number = self._updates.read_value()
        values = (update_number, *metrics.values())
        return tf.stack([tf.cast(value, tf.float64) for value in values])

    def _validate(self, inputs: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
        """Return loss and metrics of a validation batch, each times the number of samples."""
        self._replica.streams.use_global_stream()
        samples = tf.cast(tf.shape(targets)[0], tf.float64)
        return self._replica.metric_means(inputs, targets) * samples


def _batch_signature(samples: ArraySamples) -> list[tf.TensorSpec]:
    """Return the specs of inputs and targets in a batch of any size."""
    one = samples.batch(tf.constant([0]))
    return [tf.TensorSpec((None, *tensor.shape[1:]), tensor.dtype) for tensor in one]
