"""One worker of a MultiWorkerMirroredStrategy: a rank with one device."""

from __future__ import annotations

import signal
from collections.abc import Sequence

import tensorflow as tf

from engine.tf.devices import configure, kind_of
from engine.tf.graph import graph
from engine.tf.parallel import Parallel
from engine.tf.parallelism.cluster import joined_cluster, leave_cluster
from engine.training.errors import TrainingFailed
from engine.worker.session import WorkerSession

TIMEOUT_SECONDS = 1800.0
"""Longest wait in a collective for a rank that is alive; TensorFlow notices a dead one at once."""


class MultiWorkerParallel(Parallel):
    """Every rank holds a copy of the variables; all copies are equal between two steps."""

    def __init__(self, session: WorkerSession) -> None:
        """Join the cluster, and wait until all ranks have joined it; all ranks must call this."""
        # CUDA sees exactly the GPUs of the spec, in its order; select the one of this rank. All
        # logical CPUs are parts of the first physical one.
        kind = kind_of(session.devices)
        chosen = session.machine_devices.index(session.devices[0]) if kind == "GPU" else 0
        seen = tf.config.list_physical_devices(kind)
        tf.config.set_visible_devices(seen[chosen : chosen + 1], kind)
        devices = configure(session.devices, session.spec.memory_limit_mib)
        with joined_cluster(session.rank, session.world_size):
            super().__init__(start_strategy(devices))
        # TensorFlow has installed its own SIGTERM handler, which does not end the process.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._session = session
        word = tf.TensorSpec((2,), tf.int64)
        self._all_reduce_sum = graph(self._sum, input_signature=[word])

    def agree(self, control_word: tuple[int, int]) -> tuple[int, int]:
        first, second = self._all_reduce_sum(tf.constant(control_word, tf.int64)).numpy().tolist()
        return first, second

    def close(self) -> None:
        self.agree((0, 0))  # waits for all ranks
        leave_cluster(self._session.rank, self._session.world_size)

    def _sum(self, word: tf.Tensor) -> tf.Tensor:
        words = self.distribution.run(tf.identity, args=(word,))
        return self.distribution.reduce("SUM", words, axis=None)


def start_strategy(devices: Sequence[str]) -> tf.distribute.MultiWorkerMirroredStrategy:
    """Start and return the strategy of the cluster in `TF_CONFIG`; wait for all its workers.

    Raises TrainingFailed when this worker's port is taken.
    """
    implementation = tf.distribute.experimental.CommunicationImplementation
    options = tf.distribute.experimental.CommunicationOptions(
        implementation=implementation.NCCL if devices[0].startswith("GPU") else implementation.RING,
        timeout_seconds=TIMEOUT_SECONDS,
    )
    try:
        return tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    except tf.errors.UnknownError as error:
        cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        address = cluster.cluster_spec().task_address(cluster.task_type, cluster.task_id)
        raise TrainingFailed(
            f"TensorFlow could not open its server on {address} ({error.message}): most likely "
            "another process has that port. Start the run again; it chooses free ports."
        ) from error
