"""Starts the worker processes of a run on this machine, and ends them."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

from engine.spec.device_names import is_logical_cpu
from engine.spec.recipe_file import RecipeInfo
from engine.spec.run_spec import RunSpec
from engine.spec.strategy import Strategy, WorkerPlan
from engine.system.process import end_group, start_module


class RunPlan(NamedTuple):
    """The data that all attempts of a run share."""

    folder: Path
    spec: RunSpec
    recipe: RecipeInfo
    strategy: Strategy
    workers: Sequence[WorkerPlan]


class WorkerPool:
    """The worker processes of one attempt; each is the leader of its own process group."""

    def __init__(self, plan: RunPlan, on_exit: Callable[[int, int], None]) -> None:
        """`on_exit(rank, exit_code)` is called once per worker, from a thread."""
        self._plan = plan
        self._on_exit = on_exit
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, extra_environment: dict[str, str]) -> None:
        """Start all workers, with `extra_environment` in their environment.

        Raises OSError; the processes that were started before it still run.
        """
        plan = self._plan
        for rank in (worker.rank for worker in plan.workers):
            process = start_module(
                "engine.worker",
                str(plan.folder),
                log=self.log_file(rank),
                environment=_environment(plan.spec, rank, len(plan.workers)) | extra_environment,
                cwd=plan.folder if plan.recipe.builtin else Path(plan.recipe.path).parent,
            )
            self.processes.append(process)
            threading.Thread(
                target=self._wait, args=(rank, process), daemon=True, name=f"wait-{rank}"
            ).start()

    def log_file(self, rank: int) -> Path:
        """Return the file with stdout and stderr of `rank`."""
        return self._plan.folder / "logs" / f"rank{rank}.log"

    def end(self, *, kill: bool) -> None:
        """Terminate or kill all workers and their children, also children of dead workers."""
        for process in self.processes:
            end_group(process, kill=kill)

    def _wait(self, rank: int, process: subprocess.Popen[bytes]) -> None:
        self._on_exit(rank, process.wait())


def _environment(spec: RunSpec, rank: int, world_size: int) -> dict[str, str]:
    """Return the environment variables of one worker; a framework reads them at its import."""
    gpus = [device for device in spec.devices if not is_logical_cpu(device)]
    threads = max(1, (psutil.cpu_count(logical=False) or 1) // world_size)
    # With TF_CONFIG, TensorFlow would join the cluster that the variable describes.
    inherited = {name: value for name, value in os.environ.items() if name != "TF_CONFIG"}
    return inherited | {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(world_size),
        "LOCAL_WORLD_SIZE": str(world_size),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": ",".join(gpus),
        "GLOO_SOCKET_IFNAME": _loopback(),
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(threads)),
        "KERAS_BACKEND": "tensorflow" if spec.strategy.startswith("tf/") else "torch",
        "KERAS_TORCH_DEVICE": "cuda" if gpus else "cpu",
        "TF_CPP_MIN_LOG_LEVEL": "1",
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
        "PYTHONUNBUFFERED": "1",
    }


def _loopback() -> str:
    """Return the name of the loopback interface; empty if there is none."""
    for name, addresses in psutil.net_if_addrs().items():
        if any(address.address == "127.0.0.1" for address in addresses):
            return str(name)
    return ""
