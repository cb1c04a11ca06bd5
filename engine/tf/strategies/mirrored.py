"""`tf/mirrored`: MirroredStrategy, every device in one process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from engine.spec.device_names import all_on_cpu
from engine.tf.tf_strategy import TfStrategy

if TYPE_CHECKING:
    from engine.spec.run_spec import RunSpec


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

    def refusal(self, field: str, spec: RunSpec) -> str:
        if field != "cross_device":
            return super().refusal(field, spec)
        if spec.cross_device == "nccl":
            if all_on_cpu(spec.devices):
                return "nccl connects NVIDIA GPUs: on CPUs choose another way, or auto."
            if spec.workers_per_device > 1:
                return "nccl allows one replica per GPU: choose another way to split a GPU."
        return ""

    def build(self, devices: Sequence[str]) -> Any:
        import tensorflow as tf

        return tf.distribute.MirroredStrategy(list(devices))

    def build_for(self, devices: Sequence[str], spec: RunSpec) -> Any:
        import tensorflow as tf

        ways = {
            "nccl": tf.distribute.NcclAllReduce,
            "hierarchical": tf.distribute.HierarchicalCopyAllReduce,
            "one_device": tf.distribute.ReductionToOneDevice,
        }
        way = ways.get(spec.cross_device)
        return tf.distribute.MirroredStrategy(list(devices), way() if way else None)


strategy = Mirrored()
