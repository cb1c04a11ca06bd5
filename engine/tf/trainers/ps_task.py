"""A worker or a parameter server of a ParameterServerStrategy: a TensorFlow server that computes
what the coordinator asks for, and a rank of the pool that follows the coordinator's loop."""

from __future__ import annotations

import os
from pathlib import Path

import tensorflow as tf

from engine.runs.checkpoint_files import Position
from engine.spec.device_names import is_logical_cpu
from engine.system.process import resident_bytes
from engine.tf.devices import StaysOnDevices, empty_cache, set_numerics
from engine.tf.trainers.cluster import THIS_MACHINE, close_to_other_machines
from engine.tf.trainers.ps_channel import Joined, TaskChannel
from engine.worker import environment
from engine.worker.session import WorkerSession

LEAST_THREADS = 4
"""An operation that waits for another process holds a thread: with fewer, servers deadlock."""


class ParameterServerMember(StaysOnDevices):
    """See `engine.training.protocols.Trainer`: it does what the coordinator does, in name only."""

    def __init__(self, session: WorkerSession, job: str, task: int) -> None:
        """Serve as task `task` of `job`, `worker` or `ps`; returns once the model stands."""
        self._devices = session.devices
        set_numerics(session.spec)
        # Port 0: the system chooses, and the coordinator learns which one it is.
        self._server = tf.distribute.Server(
            {job: {task: f"{THIS_MACHINE}:0"}},
            job_name=job,
            task_index=task,
            protocol="grpc",
            config=_configuration(session),
        )
        close_to_other_machines()
        port = int(self._server.target.rpartition(":")[2])
        meeting = Path(os.environ[environment.RENDEZVOUS])
        self._member = TaskChannel(meeting, Joined(session.rank, port))
        steps, batches, parameters = self._member.hear()
        self.steps_per_epoch, self.validation_batches = int(steps), int(batches)
        self.parameters = int(parameters)
        self.replicas = 1

    def run_steps(self, position: Position, count: int) -> dict[str, list[float]]:
        return {"loss": self._member.hear()}

    def rank_metrics(self) -> dict[str, float]:
        return {"memory_resident": float(resident_bytes())}

    def begin_validation(self) -> None:
        pass  # the coordinator adds up

    def validate(self, batch: int, count: int) -> None:
        pass  # the next agreement comes when the coordinator is done

    def end_validation(self) -> dict[str, float]:
        return {}  # rank 0 alone speaks of it

    def save(self, folder: Path) -> None:
        pass  # the coordinator writes all variables

    def restore(self, folder: Path) -> None:
        pass  # the coordinator reads all variables

    def empty_cache(self) -> dict[str, int]:
        return empty_cache(self._devices)

    def agree(self, word: tuple[int, int]) -> tuple[int, int]:
        ask, count = self._member.hear()
        return int(ask), int(count)

    def close(self) -> None:
        self._member.wait_for_the_end()  # the coordinator needs the variables for its last save


def _configuration(session: WorkerSession) -> tf.compat.v1.ConfigProto:
    """What this process' server uses: its own GPU, or none."""
    configuration = tf.compat.v1.ConfigProto()
    configuration.inter_op_parallelism_threads = max(LEAST_THREADS, os.cpu_count() or 1)
    gpus = [name for name in session.devices if not is_logical_cpu(name)]
    if gpus:
        # The launcher made exactly the spec's GPUs visible, in its order.
        places = [str(session.spec.devices.index(name)) for name in gpus]
        configuration.gpu_options.visible_device_list = ",".join(places)
        limit = session.spec.memory_limit_mib
        if limit:
            part = configuration.gpu_options.experimental.virtual_devices.add()
            part.memory_limit_mb.append(limit)
        else:
            configuration.gpu_options.allow_growth = True
    else:
        configuration.device_count["GPU"] = 0
    return configuration
