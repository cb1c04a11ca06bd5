"""`tf/central_storage`: the variables in one place, the computation on all devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.tf.tf_strategy import TfStrategy

if TYPE_CHECKING:
    from engine.tf.parallel import Parallel
    from engine.worker.session import WorkerSession


class CentralStorage(TfStrategy):
    """One copy of the variables; all devices send their gradients to it."""

    name = "tf/central_storage"
    title = "CentralStorage"
    summary = (
        "CentralStorageStrategy: one process keeps model and optimizer state in one place and "
        "computes on every "
        "device. For optimizers whose state would not fit on each GPU beside the model."
    )
    refusals = TfStrategy.refusals | {
        "compile": "XLA compiles for one device, and here the variables are on another one.",
    }

    def parallel(self, session: WorkerSession) -> Parallel:
        from engine.tf.devices import configure
        from engine.tf.parallelism.central_storage import CentralStorageParallel

        return CentralStorageParallel(configure(session.devices, session.spec.memory_limit_mib))


strategy = CentralStorage()
