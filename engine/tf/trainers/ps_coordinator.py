"""The coordinator of a ParameterServerStrategy: it schedules one step per global batch on whichever
worker is free, and waits for all of them between two chunks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from engine.runs.checkpoint_files import Position, read_manifest
from engine.system.process import resident_bytes
from engine.tf.data import ArraySamples
from engine.tf.devices import empty_cache
from engine.tf.graph import graph
from engine.tf.local_batch import Gradients, share, summed
from engine.tf.strategies.parameter_server import ParameterServer
from engine.tf.trainer import TfTrainer
from engine.tf.trainers.cluster import THIS_MACHINE, close_to_other_machines
from engine.tf.trainers.ps_channel import CoordinatorChannel
from engine.tf.trainers.wait_limit import Patience
from engine.training import sample_order
from engine.training.errors import TrainingFailed
from engine.worker import environment
from engine.worker.session import WorkerSession

MOST_IN_FLIGHT = 64
"""Steps that are scheduled at once: their batches lie in this process' memory."""

LONGEST_WAIT = 600.0
"""Seconds for those steps, the first of which may compile; nothing that works takes so long."""


class ParameterServerTrainer(TfTrainer):
    """Asynchronous data parallel: each step is a whole global batch on one worker, whose gradients
    are applied at once, to variables that other workers may have changed since it read them."""

    def __init__(self, session: WorkerSession, strategy: ParameterServer) -> None:
        super().__init__(session, strategy)
        with self._scope.scope():
            # Keras' `optimizer.iterations` loses counts when workers update at the same time.
            self._updates = tf.Variable(
                0,
                dtype=tf.int64,
                trainable=False,
                aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
            )
        self._coordinator = tf.distribute.coordinator.ClusterCoordinator(self._scope)
        self._patience = Patience()
        step, rate = tf.TensorSpec((), tf.int64), tf.TensorSpec((), tf.float32)
        self._train_step = self._traced(self._worker_step, [*_batches_of(self._train), step, rate])
        self._validation_step = self._traced(self._worker_validation, _batches_of(self._validation))
        close_to_other_machines()
        self._members.tell([self.steps_per_epoch, self.validation_batches, self.parameters])

    def _make_scope(self, session: WorkerSession, strategy: Any) -> Any:
        tf.config.set_visible_devices([], "GPU")  # they are the workers'
        tasks = strategy.tasks(session.spec.slots)
        self._members = CoordinatorChannel(Path(os.environ[environment.RENDEZVOUS]), len(tasks))
        jobs: dict[str, list[str]] = {}
        for rank, (job, _) in tasks.items():
            jobs.setdefault(job, []).append(f"{THIS_MACHINE}:{self._members.ports[rank]}")
        return tf.distribute.ParameterServerStrategy(
            tf.distribute.cluster_resolver.SimpleClusterResolver(
                tf.train.ClusterSpec(jobs), rpc_layer="grpc"
            )
        )

    def _traced(self, function: Callable[..., tf.Tensor], signature: list[tf.TensorSpec]) -> Any:
        """`function` for the workers, traced once and known to them from now on.

        To tell them takes the interpreter's lock until they answer. Later, when one of them may
        hang, nobody would be left to notice it; now our supervisor waits for us.
        """
        traced = graph(function, input_signature=signature)
        # Without this TensorFlow warns of steps on the coordinator; here is only their graph.
        self._scope.extended._allow_run_without_coordinator = True
        with self._scope.scope():
            traced.get_concrete_function()
        return traced

    def run_steps(self, position: Position, count: int) -> dict[str, list[float]]:
        order = sample_order.epoch_order(len(self._train), self._spec.seed, position.epoch)
        first, batch = position.step, position.batch
        rates = self._rates(position, count)

        def step(number: int) -> Any:
            whole = sample_order.global_batch(order, batch + number, self._spec.batch_size)
            inputs, targets = self._train.batch(tf.constant(whole))
            step = tf.constant(first + number, tf.int64)
            return self._coordinator.schedule(
                self._train_step, args=(inputs, targets, step, rates[number])
            )

        # In the order in which the updates reached the servers.
        updates = sorted(map(np.ndarray.tolist, self._all_of(step, count)))
        self._check_count(first + count)
        _, *columns = zip(*updates, strict=True)
        figures = {n: list(c) for n, c in zip(self._figures, columns, strict=True)}
        self._members.tell(figures["loss"])
        return figures

    def rank_metrics(self) -> dict[str, float]:
        return {"memory_resident": float(resident_bytes())}

    def validate(self, batch: int, count: int) -> None:
        everything = np.arange(len(self._validation))

        def step(number: int) -> Any:
            whole = sample_order.global_batch(everything, batch + number, self._spec.batch_size)
            args = self._validation.batch(tf.constant(whole))
            return self._coordinator.schedule(self._validation_step, args=args)

        for sums in self._all_of(step, count):
            self._sums = self._sums + sums

    def restore(self, folder: Path) -> None:
        super().restore(folder)
        self._updates.assign(read_manifest(folder).position.step)

    def empty_cache(self) -> dict[str, int]:
        return empty_cache(())  # the workers speak of their devices

    def agree(self, word: tuple[int, int]) -> tuple[int, int]:
        self._members.tell([*word])
        return word

    def close(self) -> None:
        self._members.close()

    def _all_of(
        self, schedule: Callable[[int], Any], count: int
    ) -> Iterator[npt.NDArray[np.float64]]:
        """What the steps `schedule(0)` ... `schedule(count - 1)` gave, each scheduled, all done."""
        for first in range(0, count, MOST_IN_FLIGHT):
            answers = [schedule(k) for k in range(first, min(count, first + MOST_IN_FLIGHT))]
            self._join()
            yield from (answer.fetch() for answer in answers)

    def _join(self) -> None:
        """Wait for all that is scheduled, but not for ever, as `ClusterCoordinator.join` would."""
        if not self._patience.ends(self._coordinator.join, LONGEST_WAIT):
            raise TrainingFailed(
                f"The workers did not finish their steps within {LONGEST_WAIT:.0f} s: one of them "
                "hangs. Resume from the last checkpoint."
            )

    def _check_count(self, steps: int) -> None:
        """Hold Keras' count to ours. Raises TrainingFailed when not every step counts once."""
        updates = int(self._updates.numpy())
        if updates != steps:
            raise TrainingFailed(
                f"{steps} steps were scheduled, but {updates} updates reached the parameter "
                "servers: TensorFlow lost or repeated some. Resume from the last checkpoint."
            )
        self._optimizer.iterations.assign(steps)

    def _worker_step(
        self, inputs: tf.Tensor, targets: tf.Tensor, step: tf.Tensor, rate: tf.Tensor
    ) -> tf.Tensor:
        return self._scope.run(self._one_update, args=(inputs, targets, step, rate))

    def _one_update(
        self, inputs: tf.Tensor, targets: tf.Tensor, step: tf.Tensor, rate: tf.Tensor
    ) -> tf.Tensor:
        """The update after `step` steps, with a whole global batch: its place, and its figures."""
        self._streams.enter_replica()
        parts = self._spec.accumulation
        whole = tf.range(tf.shape(targets)[0])

        def part(number: tf.Tensor) -> Gradients:
            mine, count = share(whole, number, parts)
            weight = tf.cast(count, tf.float32) / tf.cast(tf.size(whole), tf.float32)
            return self._computed(tf.gather(inputs, mine), tf.gather(targets, mine), weight)

        loss, gradients = summed(part, parts, self._variables)
        self._optimizer.iterations.assign(step)
        figures = {"loss": loss} | self._update.apply(gradients, rate)
        self._figures = list(figures)
        with tf.control_dependencies([self._updates.assign_add(1)]):
            place = self._updates.read_value()
        return tf.stack([tf.cast(value, tf.float64) for value in (place, *figures.values())])

    def _worker_validation(self, inputs: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
        return self._scope.run(self._sums_of, args=(inputs, targets))

    def _sums_of(self, inputs: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
        """Loss and metrics, each times the number of samples."""
        self._streams.enter_replica()
        return self._means(inputs, targets) * tf.cast(tf.shape(targets)[0], tf.float64)


def _batches_of(samples: ArraySamples) -> list[tf.TensorSpec]:
    """What inputs and targets look like in a batch of any size."""
    one = samples.batch(tf.constant([0]))
    return [tf.TensorSpec((None, *part.shape[1:]), part.dtype) for part in one]
