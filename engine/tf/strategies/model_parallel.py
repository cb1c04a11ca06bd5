"""`tf/model_parallel`: the stages of a model on several devices, in one process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.spec.strategy import PartitionedStrategy
from engine.tf.tf_strategy import TfStrategy

if TYPE_CHECKING:
    from engine.tf.parallel import Parallel
    from engine.worker.session import WorkerSession


class ModelParallel(PartitionedStrategy, TfStrategy):
    """One stage per device; activations are moved from device to device."""

    name = "tf/model_parallel"
    title = "Model parallel"
    summary = (
        "The model is cut into one stage per device and one device computes at a time: the simple "
        "way to train a model that fits on no single device."
    )
    needs = "1 or more devices, and a model that can be cut into stages"
    refusals = {
        **TfStrategy.refusals,
        "compile": "XLA compiles for one device, and here the stages are on several.",
    }

    def parallel(self, session: WorkerSession) -> Parallel:
        from engine.tf.devices import configure
        from engine.tf.parallelism.model_parallel import StagedParallel

        return StagedParallel(configure(session.devices, session.spec.memory_limit_mib))


strategy = ModelParallel()
