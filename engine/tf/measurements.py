"""Measures, for a preflight, the all-reduce of the replicas and a validation batch."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from engine.tf.graph import graph
from engine.training.probes.measuring import SIZES, Measurements, repeats_of


def all_reduce(
    distribution: tf.distribute.Strategy,
    agree: Callable[[tuple[int, int]], tuple[int, int]],
    told: Measurements,
    seconds: float,
) -> None:
    """Measure the sum over all replicas, with the call of its graph; all ranks call this.

    `agree` is that of the trainer: rank 0 decides how often a size is repeated.
    """

    def replica(count: tf.Tensor) -> tf.Tensor:
        context = tf.distribute.get_replica_context()
        return tf.reduce_max(context.all_reduce("SUM", tf.ones((count,))))

    def step(count: tf.Tensor) -> Any:
        return distribution.run(replica, args=(count,))

    summed = graph(step, input_signature=[tf.TensorSpec((), tf.int32)])

    def measured(count: int, repeats: int) -> float:
        begin = time.perf_counter()
        for _ in range(repeats):
            result = summed(tf.constant(count, tf.int32))
        for each in distribution.experimental_local_results(result):
            each.numpy()  # waits for the device
        return time.perf_counter() - begin

    ends_at = time.monotonic() + seconds
    measured(1, 1)  # it is traced here
    for size in SIZES:
        once = measured(size // 4, 1)
        wanted = repeats_of(once, ends_at - time.monotonic())
        repeats, _ = agree((wanted if told.is_rank_zero else 0, 0))
        if not repeats:
            return
        told.tell(f"all_reduce/{size}/seconds", measured(size // 4, repeats) / repeats)
