"""`tf/mirrored`: MirroredStrategy, every device in one process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.tf.strategy import TfStrategy


class Mirrored(TfStrategy):
    """Every device holds the variables; gradients are summed over the devices before the update."""

    name = "tf/mirrored"
    title = "Mirrored (data parallel)"
    summary = (
        "MirroredStrategy: one process, a copy of the model on each device, gradients summed over "
        "them. The usual choice for several GPUs of one machine."
    )
    needs = "1 or more devices of one kind"

    def problems(self, devices: Sequence[str]) -> list[str]:
        return []

    def build(self, devices: Sequence[str]) -> Any:
        import tensorflow as tf

        return tf.distribute.MirroredStrategy(list(devices))


strategy = Mirrored()
