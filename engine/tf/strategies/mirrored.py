"""`tf/mirrored`: MirroredStrategy, every device in one process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.spec.device_names import all_on_cpu
from engine.tf.tf_strategy import TfStrategy

if TYPE_CHECKING:
    from engine.spec.run_spec import RunSpec
    from engine.tf.parallel import Parallel
    from engine.worker.session import WorkerSession


class Mirrored(TfStrategy):
    """Every device holds the variables; gradients are summed over the devices before the update."""

    name = "tf/mirrored"
    title = "MirroredStrategy"
    summary = (
        "MirroredStrategy: one process, a copy of the model on each device, gradients summed over "
        "them. The usual choice for several GPUs of one machine."
    )

    def refusal(self, field: str, spec: RunSpec) -> str:
        if field != "cross_device":
            return super().refusal(field, spec)
        if spec.cross_device == "nccl":
            if all_on_cpu(spec.devices):
                return "nccl connects NVIDIA GPUs: on CPUs choose another way, or auto."
            if spec.workers_per_device > 1:
                return "nccl allows one replica per GPU: choose another way to split a GPU."
        return ""

    def parallel(self, session: WorkerSession) -> Parallel:
        import tensorflow as tf

        from engine.tf.devices import configure
        from engine.tf.parallel import Parallel

        devices = configure(session.devices, session.spec.memory_limit_mib)
        cross_device_ops = {
            "nccl": tf.distribute.NcclAllReduce,
            "hierarchical": tf.distribute.HierarchicalCopyAllReduce,
            "one_device": tf.distribute.ReductionToOneDevice,
        }
        chosen = cross_device_ops.get(session.spec.cross_device)
        return Parallel(tf.distribute.MirroredStrategy(devices, chosen() if chosen else None))


strategy = Mirrored()
