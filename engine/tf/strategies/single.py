"""`tf/single`: one device, no communication."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.tf.tf_strategy import TfStrategy

if TYPE_CHECKING:
    from engine.tf.parallel import Parallel
    from engine.worker.session import WorkerSession


class Single(TfStrategy):
    """The plain loop on one device."""

    name = "tf/single"
    title = "Single device"
    summary = "The TensorFlow loop on one device: the reference that every other strategy equals."
    needs = "1 device"
    refusals = TfStrategy.refusals | {
        "workers_per_device": "It trains on one device: choose tf/mirrored to split that among "
        "several workers.",
    }

    def problems(self, devices: Sequence[str]) -> list[str]:
        if len(devices) > 1:
            return [
                f"{self.name} trains on 1 device and {len(devices)} are chosen: "
                "choose one device, or the strategy tf/mirrored."
            ]
        return []

    def parallel(self, session: WorkerSession) -> Parallel:
        import tensorflow as tf

        from engine.tf.devices import configure
        from engine.tf.parallel import Parallel

        (device,) = configure(session.devices, session.spec.memory_limit_mib)
        return Parallel(tf.distribute.OneDeviceStrategy(device))


strategy = Single()
