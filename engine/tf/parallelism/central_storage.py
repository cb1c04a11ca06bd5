"""Training with one copy of the variables and with computation on several devices."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from engine.tf.batch_norm import moving_variables
from engine.tf.parallel import Parallel
from engine.tf.replica import Replica
from engine.tf.samples.local_batch import Gradients
from engine.tf.samples.reader import Fetch


class CentralStorageParallel(Parallel):
    """Each device computes its local batch; the sum of all gradients is applied once.

    This is not TensorFlow's CentralStorageStrategy, whose variables fail in Keras 3 BatchNorm and
    dropout with two or more devices. Here the graph has the operations of all devices, and
    TensorFlow runs the devices in parallel.
    """

    def __init__(self, devices: Sequence[str]) -> None:
        """`devices` are TensorFlow's names. With several devices, the variables are on the CPU."""
        self._variable_device = devices[0] if len(devices) == 1 else "CPU:0"
        super().__init__(tf.distribute.OneDeviceStrategy(self._variable_device))
        self._devices = devices

    def step_gradients(self, replica: Replica, global_batch: tf.Tensor, fetch: Fetch) -> Gradients:
        moving = moving_variables(replica.model)
        values, gradients, first_values = [], [], []
        for number, device in enumerate(self._devices):
            with tf.device(device):
                device_values, device_gradients = replica.gradients(global_batch, fetch, number)
            values.append(device_values)
            gradients.append(device_gradients)
            if number == 0:
                first_values = [tf.identity(variable.value) for variable in moving]
        # All replicas update the same moving variables; keep the values of replica 0.
        if len(self._devices) > 1:
            for variable, first in zip(moving, first_values, strict=True):
                variable.assign(first)
        with tf.device(self._variable_device):
            return tf.add_n(values), [tf.add_n(terms) for terms in zip(*gradients, strict=True)]

    def batch_sums(self, replica: Replica, global_batch: tf.Tensor, fetch: Fetch) -> tf.Tensor:
        sums = []
        for number, device in enumerate(self._devices):
            with tf.device(device):
                sums.append(replica.metric_sums(global_batch, fetch, number))
        with tf.device(self._variable_device):
            return tf.add_n(sums)
