"""`tf/multi_worker`: MultiWorkerMirroredStrategy, one process per device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.spec.device_names import all_on_cpu
from engine.spec.strategy import WorkerPlan, one_process_per_device
from engine.tf.tf_strategy import HEARTBEAT_TIMEOUT, TfStrategy

if TYPE_CHECKING:
    from engine.spec.run_spec import RunSpec
    from engine.tf.parallel import Parallel
    from engine.worker.session import WorkerSession


class MultiWorker(TfStrategy):
    """Every process holds the variables; gradients are summed over the processes."""

    name = "tf/multi_worker"
    title = "MultiWorkerMirrored"
    summary = (
        "MultiWorkerMirroredStrategy: one process per device, a copy of the model in each, "
        "gradients summed over them. The same as tf/mirrored, in the way used across machines."
    )
    heartbeat_timeout = HEARTBEAT_TIMEOUT
    spans_machines = True

    def pool(self, devices: Sequence[str]) -> tuple[WorkerPlan, ...]:
        return one_process_per_device(devices)

    def refusal(self, field: str, spec: RunSpec) -> str:
        on_cpu = all_on_cpu(spec.devices)
        match field:
            case "workers_per_device" if on_cpu:
                return ""
            case "workers_per_device":
                return "nccl allows one process per GPU: choose tf/mirrored to split a GPU."
            case "cross_device" if spec.cross_device != "nccl":
                return "It works within one process, and this strategy has several: choose auto."
            case "cross_device":
                return "nccl connects NVIDIA GPUs: on CPUs choose auto." if on_cpu else ""
            case _:
                return super().refusal(field, spec)

    def parallel(self, session: WorkerSession) -> Parallel:
        from engine.tf.parallelism.multi_worker import MultiWorkerParallel

        return MultiWorkerParallel(session)


strategy = MultiWorker()
