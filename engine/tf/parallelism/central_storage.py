"""Training with one copy of the variables, and the computation on several devices."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from engine.tf.batch_norm import moving_variables
from engine.tf.local_batch import Gradients
from engine.tf.parallel import Parallel
from engine.tf.replica import Replica


class CentralStorageParallel(Parallel):
    """Each device computes its local batch; the sum of all gradients is applied once.

    Not TensorFlow's CentralStorageStrategy: with two or more devices its variables fail in Keras 3
    BatchNorm and dropout. Here every device is entered in the graph, one after the other;
    TensorFlow runs them in parallel, for every model.
    """

    def __init__(self, devices: Sequence[str]) -> None:
        """`devices` are TensorFlow's names. The variables are on the only one, or on the CPU."""
        self._home = devices[0] if len(devices) == 1 else "CPU:0"
        super().__init__(tf.distribute.OneDeviceStrategy(self._home))
        self._devices = devices

    def step_gradients(self, replica: Replica, global_batch: tf.Tensor) -> Gradients:
        moving = moving_variables(replica.model)
        losses, gradients, first = [], [], []
        for number, device in enumerate(self._devices):
            with tf.device(device):
                loss, found = replica.gradients(global_batch, number)
            losses.append(loss)
            gradients.append(found)
            if number == 0:
                first = [tf.identity(variable.value) for variable in moving]
        # All replicas update the same moving statistics; those of replica 0 count.
        if len(self._devices) > 1:
            for variable, value in zip(moving, first, strict=True):
                variable.assign(value)
        with tf.device(self._home):
            return tf.add_n(losses), [tf.add_n(terms) for terms in zip(*gradients, strict=True)]

    def batch_sums(self, replica: Replica, global_batch: tf.Tensor) -> tf.Tensor:
        sums = []
        for number, device in enumerate(self._devices):
            with tf.device(device):
                sums.append(replica.sums(global_batch, number))
        with tf.device(self._home):
            return tf.add_n(sums)
