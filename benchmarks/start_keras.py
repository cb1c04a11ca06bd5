"""A small network for `benchmarks.start`: a recipe, and a bare TensorFlow script that trains it.

`python benchmarks/start_keras.py FILE` appends a line to FILE after the first step: of a
MirroredStrategy on two logical CPUs, or, with TF_CONFIG, of a ParameterServerStrategy.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

BATCH_SIZE = 64
LEARNING_RATE = 0.01

Pair = tuple[np.ndarray, np.ndarray]


def model() -> keras.Model:
    """A perceptron."""
    return keras.Sequential(
        [
            keras.Input((256,)),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dense(10),
        ]
    )


def datasets() -> tuple[Pair, Pair]:
    """Noise: 32 batches."""
    random = np.random.RandomState(0)
    inputs = random.randn(32 * BATCH_SIZE, 256).astype(np.float32)
    targets = random.randint(0, 10, len(inputs))
    return (inputs, targets), (inputs[:BATCH_SIZE], targets[:BATCH_SIZE])


def optimizer(parameters: Any, learning_rate: float) -> keras.optimizers.Optimizer:
    """AdamW, as in most scripts."""
    return keras.optimizers.AdamW(learning_rate)


class Network:
    """The model of a script, and its step."""

    def __init__(self) -> None:
        """Called in the scope of a strategy."""
        self._model = model()
        self._optimizer = optimizer(None, LEARNING_RATE)
        self._optimizer.build(self._model.trainable_variables)

    def step(self, inputs: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
        """Do one step, and return this replica's part of the mean loss."""
        variables = self._model.trainable_variables
        with tf.GradientTape() as tape:
            outputs = self._model(inputs, training=True)
            losses = keras.losses.sparse_categorical_crossentropy(
                targets, outputs, from_logits=True
            )
            loss = tf.reduce_sum(losses) / BATCH_SIZE
        self._optimizer.apply(tape.gradient(loss, variables), variables)
        return loss


def batches() -> tf.data.Dataset:
    """The global batches, shuffled."""
    (inputs, targets), _ = datasets()
    data = tf.data.Dataset.from_tensor_slices((inputs, targets))
    return data.shuffle(len(inputs)).batch(BATCH_SIZE)


def train_mirrored() -> float:
    """Do one step on two logical CPUs; return its loss."""
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        network = Network()

    def step(inputs: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
        return strategy.reduce("SUM", strategy.run(network.step, (inputs, targets)), axis=None)

    inputs, targets = next(iter(strategy.experimental_distribute_dataset(batches())))
    return float(tf.function(step)(inputs, targets))


def serve(cluster: tf.distribute.cluster_resolver.ClusterResolver) -> None:
    """Be a worker or a parameter server, until this process is ended."""
    server = tf.distribute.Server(
        cluster.cluster_spec(),
        job_name=cluster.task_type,
        task_index=cluster.task_id,
        protocol="grpc",
    )
    server.join()


def coordinate(cluster: tf.distribute.cluster_resolver.ClusterResolver) -> float:
    """Do one step on a worker; return its loss."""
    strategy = tf.distribute.ParameterServerStrategy(cluster)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        network = Network()

    def step(iterator: Any) -> tf.Tensor:
        return strategy.run(network.step, next(iterator))

    data = coordinator.create_per_worker_dataset(batches)
    loss = coordinator.schedule(tf.function(step), args=(iter(data),))
    coordinator.join()
    return float(loss.fetch())


def main(report: Path) -> None:
    """Train as TF_CONFIG says."""
    if "TF_CONFIG" not in os.environ:
        loss = train_mirrored()
    else:
        cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        if json.loads(os.environ["TF_CONFIG"])["task"]["type"] != "chief":
            serve(cluster)
        loss = coordinate(cluster)
    with report.open("a") as file:
        print(loss, file=file)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
