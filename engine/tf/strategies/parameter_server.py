"""`tf/parameter_server`: ParameterServerStrategy, asynchronous workers around shared variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.spec.strategy import WorkerPlan
from engine.tf.tf_strategy import HEARTBEAT_TIMEOUT, TfStrategy

if TYPE_CHECKING:
    from engine.spec.run_spec import RunSpec
    from engine.tf.parallel import Parallel
    from engine.worker.session import WorkerSession

WORKERS_PER_SERVER = 2


class ParameterServer(TfStrategy):
    """Rank 0 is the coordinator; then come the workers, one per device, then the servers."""

    name = "tf/parameter_server"
    title = "ParameterServer (async)"
    summary = (
        "ParameterServerStrategy, asynchronous: every worker computes whole batches of its own and "
        "sends its gradients to servers that hold the variables. No worker waits for another, so "
        "two runs with several workers never give the same losses."
    )
    is_synchronous = False
    spans_machines = True
    heartbeat_timeout = HEARTBEAT_TIMEOUT
    refusals = TfStrategy.refusals | {
        "cross_device": "Workers exchange nothing: each sends its gradients to the servers.",
        "compile": "XLA cannot compile a step whose variables are in other processes.",
        "on_oom": "Many steps of its workers are under way at once, so none is the last one whose "
        "parts fit: choose gradient accumulation, or tf/mirrored.",
        "deterministic": "The order of the updates changes the result and differs in every run.",
    }

    def pool(self, devices: Sequence[str]) -> tuple[WorkerPlan, ...]:
        first_server = 1 + len(devices)
        servers = -(-len(devices) // WORKERS_PER_SERVER)
        return (
            WorkerPlan(0, (), "coordinator"),
            *(WorkerPlan(1 + k, (device,), "worker") for k, device in enumerate(devices)),
            *(WorkerPlan(first_server + k, (), "parameter server") for k in range(servers)),
        )

    def refusal(self, field: str, spec: RunSpec) -> str:
        match field:
            case "workers_per_device":
                return ""  # each worker is its own process
            case "precision" if spec.precision == "fp16":
                return "Workers that do not wait for each other cannot share a scaler: use bf16."
            case "on_nan" if spec.on_nan == "skip":
                return (
                    "Each worker updates the variables by itself, so they cannot all skip one "
                    "update: choose stop, or tf/mirrored."
                )
            case _:
                return super().refusal(field, spec)

    def tasks(self, devices: Sequence[str]) -> dict[int, tuple[str, int]]:
        """Return job and task, by TensorFlow's names, of every rank except the coordinator."""
        count = len(devices)
        return {
            plan.rank: ("worker", plan.rank - 1)
            if plan.rank <= count
            else ("ps", plan.rank - 1 - count)
            for plan in self.pool(devices)[1:]
        }

    def replicas(self, devices: Sequence[str]) -> int:
        """Return 1: each global batch is computed by one worker."""
        return 1

    def parallel(self, session: WorkerSession) -> Parallel:
        from engine.tf.parallelism.ps_coordinator import CoordinatorParallel

        return CoordinatorParallel(self.tasks(session.spec.slots))

    def trainer(self, rank: int) -> str:
        if rank == 0:
            return super().trainer(rank)
        return "engine.tf.parallelism.ps_task:ParameterServerTask"


strategy = ParameterServer()
