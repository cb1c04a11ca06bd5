"""Training with one copy of the variables, and the computation on several devices."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from engine.tf.batch_norm import statistics
from engine.tf.devices import configure
from engine.tf.local_batch import Gradients
from engine.tf.tf_strategy import TfStrategy
from engine.tf.trainer import TfTrainer
from engine.worker.session import WorkerSession


class CentralTrainer(TfTrainer):
    """Each device computes its share of a global batch, and the sum of all is applied once.

    Not TensorFlow's CentralStorageStrategy: its variables refuse what Keras 3 does in BatchNorm and
    dropout as soon as there are two devices. So the devices are entered one by one in the graph,
    which TensorFlow runs side by side, for every model in the same way.
    """

    def __init__(self, session: WorkerSession, strategy: TfStrategy) -> None:
        super().__init__(session, strategy)
        self._gathered = statistics(self._model)

    def _make_scope(self, session: WorkerSession, strategy: TfStrategy) -> Any:
        self._devices = configure(session.devices, session.spec.memory_limit_mib)
        return strategy.build_for(self._devices, session.spec)

    def _step_gradients(self, whole: tf.Tensor) -> Gradients:
        losses, gradients, first = [], [], []
        for replica, device in enumerate(self._devices):
            with tf.device(device):
                loss, own = self._own_gradients(whole, replica)
            losses.append(loss)
            gradients.append(own)
            if replica == 0:
                first = [tf.identity(variable.value) for variable in self._gathered]
        # All replicas gather into the same variables, where those of replica 0 count.
        if len(self._devices) > 1:
            for variable, value in zip(self._gathered, first, strict=True):
                variable.assign(value)
        with tf.device(self._home()):
            return tf.add_n(losses), [tf.add_n(parts) for parts in zip(*gradients, strict=True)]

    def _batch_sums(self, whole: tf.Tensor) -> tf.Tensor:
        sums = []
        for replica, device in enumerate(self._devices):
            with tf.device(device):
                sums.append(self._own_sums(whole, replica))
        with tf.device(self._home()):
            return tf.add_n(sums)

    def _home(self) -> str:
        """The device that holds the variables."""
        home: str = self._scope.extended.worker_devices[0]
        return home
