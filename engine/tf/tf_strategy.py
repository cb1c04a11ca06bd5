"""What every TensorFlow strategy says about itself, and how it comes to life in its worker."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from engine.spec.device_names import all_on_cpu
from engine.spec.strategy import Strategy, WorkerPlan, one_process

if TYPE_CHECKING:
    from engine.spec.run_spec import RunSpec
    from engine.training.protocols import Trainer
    from engine.worker.session import WorkerSession


SILENCE = 8.0
"""Seconds after which one process of several hangs: TensorFlow would wait for it, some for ever."""


class TfStrategy(Strategy):
    """A strategy whose worker runs TensorFlow: one process for all devices."""

    recipe_frameworks: ClassVar[frozenset[str]] = frozenset({"keras"})
    refusals = {
        "loader_workers": "Keras recipes give arrays, from which nothing needs to be fetched.",
        "backend": "It connects the ranks of PyTorch: TensorFlow has the option cross_device.",
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
    def build(self, devices: Sequence[str]) -> Any:
        """The `tf.distribute.Strategy` over `devices`, by TensorFlow's names (`CPU:0`, `GPU:1`)."""

    def build_for(self, devices: Sequence[str], spec: RunSpec) -> Any:
        """What `build` gives, with what `spec` says about it."""
        return self.build(devices)

    def trainer(self, session: WorkerSession) -> Trainer:
        """What trains in this process."""
        from engine.tf.trainer import TfTrainer

        return TfTrainer(session, self)
