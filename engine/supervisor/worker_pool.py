"""Starts the worker processes of a run on this machine, and ends them."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from engine.spec.device_names import is_logical_cpu
from engine.spec.recipe_file import RecipeInfo
from engine.spec.run_spec import RunSpec
from engine.spec.strategy import WorkerPlan
from engine.system.process import end_group, start_module


class WorkerPool:
    """The worker processes of one attempt; each is the leader of its own process group."""

    def __init__(self, folder: Path, on_exit: Callable[[int, int], None]) -> None:
        """`on_exit(rank, exit_code)` is called once per worker, from a thread."""
        self._folder = folder
        self._on_exit = on_exit
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(
        self,
        spec: RunSpec,
        recipe: RecipeInfo,
        plans: Sequence[WorkerPlan],
        extra: dict[str, str],
    ) -> None:
        """Start one process per plan, with `extra` in its environment.

        Raises OSError; the processes that were started before it still run.
        """
        working_folder = self._folder if recipe.builtin else Path(recipe.path).parent
        for plan in plans:
            process = start_module(
                "engine.worker",
                str(self._folder),
                log=self.log(plan.rank),
                environment=_environment(spec, plan.rank, len(plans)) | extra,
                cwd=working_folder,
            )
            self.processes.append(process)
            threading.Thread(
                target=self._wait, args=(plan.rank, process), daemon=True, name=f"wait-{plan.rank}"
            ).start()

    def log(self, rank: int) -> Path:
        """The file with stdout and stderr of `rank`."""
        return self._folder / "logs" / f"rank{rank}.log"

    def end(self, *, kill: bool) -> None:
        """Terminate or kill every worker and its children, also the children of dead workers."""
        for process in self.processes:
            end_group(process, kill=kill)

    def _wait(self, rank: int, process: subprocess.Popen[bytes]) -> None:
        self._on_exit(rank, process.wait())


def _environment(spec: RunSpec, rank: int, world_size: int) -> dict[str, str]:
    """The environment variables of one worker, which its framework reads when it is imported."""
    gpus = [device for device in spec.devices if not is_logical_cpu(device)]
    threads = max(1, (psutil.cpu_count(logical=False) or 1) // world_size)
    # TF_CONFIG would make TensorFlow join the cluster that the variable describes.
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
    """Name of the loopback interface; empty if there is none."""
    for name, addresses in psutil.net_if_addrs().items():
        if any(address.address == "127.0.0.1" for address in addresses):
            return str(name)
    return ""
