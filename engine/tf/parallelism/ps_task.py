"""A worker or a parameter server of a ParameterServerStrategy: a rank whose TensorFlow server
computes for the coordinator, and whose loop follows the coordinator's."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import tensorflow as tf

from engine.processes.process import resident_bytes
from engine.runs.checkpoints.checkpoint_files import Position
from engine.spec.device_names import is_logical_cpu
from engine.tf.devices import NoHostOffload, empty_cache, set_numerics
from engine.tf.parallelism.cluster import LOOPBACK, rank_addresses, restrict_ports
from engine.tf.parallelism.ps_channel import Registration, TaskChannel, meeting
from engine.training.protocols import DoneSteps
from engine.worker import environment
from engine.worker.session import WorkerSession

if TYPE_CHECKING:
    from engine.tf.strategies.parameter_server import ParameterServer

MIN_THREADS = 4
"""With fewer threads servers deadlock, because an operation that waits occupies a thread."""


class ParameterServerTask(NoHostOffload):
    """See `engine.training.protocols.Trainer`: takes all results from the coordinator.

    The TensorFlow server computes in its own threads for the coordinator.
    """

    def __init__(self, session: WorkerSession, strategy: ParameterServer) -> None:
        """Start the server, register with the coordinator, and wait until that has the model."""
        self._names = session.plan.devices
        set_numerics(session.spec)
        job, task = strategy.tasks(session.spec.slots)[session.rank]
        # Port 0: the system chooses one, and the coordinator learns its number.
        addresses = rank_addresses()
        own = addresses[session.rank] if addresses else f"{LOOPBACK}:0"
        self._server = tf.distribute.Server(
            {job: {task: own}},
            job_name=job,
            task_index=task,
            protocol="grpc",
            config=_configuration(session),
        )
        restrict_ports()
        port = int(self._server.target.rpartition(":")[2])
        rendezvous = Path(os.environ[environment.RENDEZVOUS])
        self._channel = TaskChannel(rendezvous, Registration(session.rank, port), meeting())
        steps, batches, parameters = self._channel.receive()
        self.steps_per_epoch, self.validation_batches = int(steps), int(batches)
        self.parameters = int(parameters)
        self.epoch_ended = False
        self.replicas = 1

    def run_steps(self, position: Position, count: int) -> DoneSteps:
        ended, *losses = self._channel.receive()
        self.epoch_ended = bool(ended)
        samples = 0.0  # the coordinator counts them
        return DoneSteps(len(losses), samples, lambda: {"loss": losses})

    def rank_metrics(self) -> dict[str, float]:
        return {"memory_resident": float(resident_bytes())}

    def begin_validation(self) -> None:
        return

    def validate(self, batch: int, count: int) -> int:
        return int(self._channel.receive()[0])

    def end_validation(self) -> dict[str, float]:
        return {}  # only rank 0 reports the metrics

    def end_epoch(self, epoch: int, metrics: Mapping[str, float]) -> str:
        ends, _ = self.agree((0, 0))
        return "The recipe ended the training." if ends else ""

    def save(self, folder: Path) -> None:
        return  # the coordinator writes all variables

    def restore(self, folder: Path) -> None:
        return  # the coordinator reads all variables

    def empty_cache(self) -> dict[str, int]:
        return empty_cache(self._names)

    def agree(self, control_word: tuple[int, int]) -> tuple[int, int]:
        flags, count = self._channel.receive()
        return int(flags), int(count)

    def close(self) -> None:
        self._channel.wait_until_closed()  # the coordinator needs the variables for its last save


def _configuration(session: WorkerSession) -> tf.compat.v1.ConfigProto:
    """Return the configuration of the server: the threads, and its own GPU or none."""
    configuration = tf.compat.v1.ConfigProto()
    configuration.inter_op_parallelism_threads = max(MIN_THREADS, os.cpu_count() or 1)
    gpus = [name for name in session.devices if not is_logical_cpu(name)]
    if gpus:
        # CUDA sees exactly the GPUs of the spec, in its order.
        ordinals = [str(session.machine_devices.index(name)) for name in gpus]
        configuration.gpu_options.visible_device_list = ",".join(ordinals)
        limit = session.spec.memory_limit_mib
        if limit:
            virtual_device = configuration.gpu_options.experimental.virtual_devices.add()
            virtual_device.memory_limit_mb.append(limit)
        else:
            configuration.gpu_options.allow_growth = True
    else:
        configuration.device_count["GPU"] = 0
    return configuration
