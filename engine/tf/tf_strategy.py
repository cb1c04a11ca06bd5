"""The base class of the TensorFlow strategies."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from engine.spec.device_names import all_on_cpu
from engine.spec.strategy import Strategy, WorkerPlan, one_process

if TYPE_CHECKING:
    from engine.spec.run_spec import RunSpec
    from engine.tf.parallel import Parallel
    from engine.worker.session import WorkerSession


HEARTBEAT_TIMEOUT = 8.0
"""Seconds without a sign of life after which a rank hangs, for ranks that wait for each other.

TensorFlow itself would wait longer, in some cases for ever.
"""


class TfStrategy(Strategy):
    """A TensorFlow strategy; by default, one process uses all devices."""

    needs = "1 or more devices of one kind"
    recipe_frameworks: ClassVar[frozenset[str]] = frozenset({"keras"})
    refusals = {
        "loader_workers": "Keras recipes give arrays, so no samples need to be fetched.",
        "backend": "It is an option of PyTorch: TensorFlow has the option cross_device.",
        "microbatches": "Only torch/pipeline divides a batch into micro-batches.",
        "cross_device": "It is for tf/mirrored, where the devices of one process exchange "
        "gradients.",
    }

    def pool(self, devices: Sequence[str]) -> tuple[WorkerPlan, ...]:
        return one_process(devices)

    def refusal(self, field: str, spec: RunSpec) -> str:
        on_cpu = all_on_cpu(spec.devices)
        match field:
            case "memory_limit_mib" if on_cpu:
                return "It limits the memory of GPUs: on a CPU leave this at 0."
            case "workers_per_device" if not on_cpu and not spec.memory_limit_mib:
                return (
                    "TensorFlow divides a GPU by memory: set the memory limit of each worker too."
                )
            case _:
                return super().refusal(field, spec)

    @abstractmethod
    def parallel(self, session: WorkerSession) -> Parallel:
        """Return the `Parallel` of this process; called in workers only.

        All ranks must call it once, before TensorFlow's first operation.
        """

    def trainer(self, rank: int) -> str:
        """Return the class of the trainer of `rank`, as `module:class`.

        Its worker imports the class and calls it with the session and this strategy.
        """
        return "engine.tf.trainer:TfTrainer"
