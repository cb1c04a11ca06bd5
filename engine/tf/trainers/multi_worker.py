"""One worker of a MultiWorkerMirroredStrategy: a rank of the pool with a device of its own."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from engine.spec.device_names import is_logical_cpu
from engine.tf.devices import configure
from engine.tf.graph import graph
from engine.tf.tf_strategy import TfStrategy
from engine.tf.trainer import TfTrainer
from engine.tf.trainers.cluster import joined, part
from engine.training.errors import TrainingFailed
from engine.worker.session import WorkerSession

TIMEOUT_SECONDS = 1800.0
"""Longest wait for another rank that lives but does not come; a dead one is noticed at once."""


def build(devices: Sequence[str]) -> tf.distribute.MultiWorkerMirroredStrategy:
    """The strategy of the cluster in `TF_CONFIG`; returns once all workers are here.

    Raises TrainingFailed when this worker's port is taken.
    """
    how = tf.distribute.experimental.CommunicationImplementation
    options = tf.distribute.experimental.CommunicationOptions(
        implementation=how.NCCL if devices[0].startswith("GPU") else how.RING,
        timeout_seconds=TIMEOUT_SECONDS,
    )
    try:
        return tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    except tf.errors.UnknownError as error:
        me = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        address = me.cluster_spec().task_address(me.task_type, me.task_id)
        raise TrainingFailed(
            f"TensorFlow could not open its server on {address} ({error.message}): most likely "
            "another process has that port. Start the run again; it chooses free ports."
        ) from error


class MultiWorkerTrainer(TfTrainer):
    """Between two steps the model's variables are the same on all ranks."""

    def __init__(self, session: WorkerSession, strategy: TfStrategy) -> None:
        super().__init__(session, strategy)
        word = tf.TensorSpec((2,), tf.int64)
        self._added_up = graph(self._add_up, input_signature=[word])

    def agree(self, word: tuple[int, int]) -> tuple[int, int]:
        first, second = self._added_up(tf.constant(word, tf.int64)).numpy().tolist()
        return first, second

    def close(self) -> None:
        self.agree((0, 0))  # waits for all ranks
        part(self._session.rank, self._session.world_size)

    def _make_scope(self, session: WorkerSession, strategy: TfStrategy) -> Any:
        name = session.devices[0]
        if not is_logical_cpu(name):
            # The launcher made exactly the spec's GPUs visible, in its order; one is ours.
            place = session.spec.devices.index(name)
            gpus = tf.config.list_physical_devices("GPU")
            tf.config.set_visible_devices(gpus[place : place + 1], "GPU")
        devices = configure(session.devices, session.spec.memory_limit_mib)
        with joined(session.rank, session.world_size):
            scope = strategy.build(devices)
        # TensorFlow has put a handler of its own in place, and that does not end the process.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        return scope

    def _add_up(self, word: tf.Tensor) -> tf.Tensor:
        return self._scope.reduce("SUM", self._scope.run(tf.identity, args=(word,)), axis=None)
