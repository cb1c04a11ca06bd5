"""How the user's command is started as one rank: its words, its folder, its environment."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from engine.environments.activation import activated
from engine.processes.machine import rank_links
from engine.processes.process import PROJECT
from engine.runs.checkpoints import checkpoint_files
from engine.script_rank.exchange import Exchange
from engine.script_rank.script_strategy import ScriptStrategy
from engine.scripts.command import command_words, search_path
from engine.scripts.secrets import ARGUMENT, with_secrets
from engine.spec.device_names import is_logical_cpu
from engine.spec.run_spec import RunSpec
from engine.system.paths import stacks_file
from engine.telemetry.gpu_makers import gpu_variables
from engine.worker import environment as names

IN_SCRIPT = PROJECT / "resources" / "in_script"
"""What a Python of the command can import besides its own modules."""

_LAUNCHER = (
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
    *("GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK", "ROLE_WORLD_SIZE", "ROLE_NAME"),
    *("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS"),
    *("TORCHELASTIC_USE_AGENT_STORE", "TF_CONFIG"),
)
"""Variables of launchers: those of this process, or of one around it, are not the command's."""

_OURS = (
    *(names.RENDEZVOUS, names.RESUME, names.ATTEMPT, names.SUPERVISOR, names.CONTROL_GROUP),
    *(names.PDB, names.RECIPE, names.COPY, names.EXCHANGE, names.PORTS, names.CONTINUATION),
    names.DEVICES,
)


class Launch(NamedTuple):
    """What an attempt tells the processes of its ranks, in their environment."""

    exchange: Exchange
    ports: Sequence[int]
    words: Sequence[str]
    """What is added to the command because it goes on."""

    first_step: int
    had_steps: bool
    """Whether the curves of earlier attempts are those of steps, and none of printed lines."""

    checkpoint: str
    """Name of the checkpoint of ours from which it goes on; empty: of none."""


def launch_of(environment: Mapping[str, str], rank: int, ranks: int) -> Launch:
    """Return what the supervisor has put into `environment`."""
    words, first_step, had_steps = json.loads(
        environment.get(names.CONTINUATION) or "[[], 0, false]"
    )
    return Launch(
        Exchange(Path(environment[names.EXCHANGE]), rank, ranks),
        [int(port) for port in environment.get(names.PORTS, "").split(",") if port],
        words,
        first_step,
        had_steps,
        environment.get(names.RESUME, ""),
    )


def working_folder(spec: RunSpec) -> Path:
    """Return the folder in which the command of `spec` runs."""
    return Path(spec.working_folder or Path(spec.recipe).parent)


def words_of(spec: RunSpec, launch: Launch) -> list[str]:
    """Return the program and its arguments. Raises CommandProblem."""
    interpreter = spec.interpreter or sys.executable
    given = activated(os.environ | spec.variables, spec.interpreter)
    found = command_words(spec.command, working_folder(spec), interpreter, search_path(given))
    return [with_secrets(word, os.environ) for word in (*found, *launch.words)]


def environment_of(
    run_folder: Path,
    spec: RunSpec,
    strategy: ScriptStrategy,
    rank: int,
    ranks: int,
    launch: Launch,
    key: str,
) -> dict[str, str]:
    """Return the environment of the command as rank `rank` of `ranks`; `key` opens the link."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name not in _LAUNCHER and name not in _OURS and not name.startswith(ARGUMENT)
    }
    found = activated(inherited | spec.variables, spec.interpreter)
    modules = [entry for entry in found.get("PYTHONPATH", "").split(os.pathsep) if entry]
    found |= {
        "PYTHONPATH": os.pathsep.join([str(IN_SCRIPT), *_without_ours(modules, spec)]),
        "PYTHONUNBUFFERED": found.get("PYTHONUNBUFFERED", "1"),
        "TRAINDECK_LINK": str(launch.exchange.socket),
        "TRAINDECK_LINK_KEY": key,
        "TRAINDECK_RUN_FOLDER": str(run_folder),
        "TRAINDECK_CHECKPOINT": str(run_folder / checkpoint_files.FOLDER / launch.checkpoint)
        if launch.checkpoint
        else "",
        "TRAINDECK_AGREEMENT": str(launch.exchange.agreement),
        "TRAINDECK_EXCHANGE": str(launch.exchange.folder),
        "TRAINDECK_RANK": str(rank),
        "TRAINDECK_WORLD": str(ranks),
        "TRAINDECK_FIRST_STEP": str(launch.first_step),
        "TRAINDECK_STACKS": str(stacks_file(run_folder, rank)),
    }
    found |= _devices(spec, strategy, rank)
    if strategy.mode == "tf_config":
        workers = [f"localhost:{port}" for port in launch.ports[:ranks]]
        task = {"type": "worker", "index": rank}
        found = rank_links() | found
        found["TF_CONFIG"] = json.dumps({"cluster": {"worker": workers}, "task": task})
    elif strategy.mode == "torchrun":
        found |= _torchrun(rank, ranks, launch.ports[0], run_folder.name)
        # As torchrun does, so that the same threads compute the same numbers.
        threads = {"OMP_NUM_THREADS": "1"} if ranks > 1 else {}
        found = threads | rank_links() | found
    return found


def _devices(spec: RunSpec, strategy: ScriptStrategy, rank: int) -> dict[str, str]:
    """Return which GPUs the command sees: as with torchrun all, where LOCAL_RANK chooses one."""
    gpus = [device for device in spec.slots if not is_logical_cpu(device)]
    if strategy.mode == "tf_config":
        gpus = gpus[rank : rank + 1]
    visible = gpu_variables(gpus)
    return visible | {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"} if gpus else visible


def _torchrun(rank: int, ranks: int, port: int, run: str) -> dict[str, str]:
    """Return the variables of `torchrun --nproc-per-node ranks` for one rank."""
    number, count = str(rank), str(ranks)
    return {
        "RANK": number,
        "LOCAL_RANK": number,
        "WORLD_SIZE": count,
        "LOCAL_WORLD_SIZE": count,
        "GROUP_RANK": "0",
        "GROUP_WORLD_SIZE": "1",
        "ROLE_NAME": "default",
        "ROLE_RANK": number,
        "ROLE_WORLD_SIZE": count,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_RUN_ID": f"traindeck-{run}",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
        "TORCHELASTIC_USE_AGENT_STORE": "False",
    }


def _without_ours(modules: list[str], spec: RunSpec) -> list[str]:
    """Return the entries of `PYTHONPATH` without the first one, which is for our own processes."""
    is_own = "PYTHONPATH" not in spec.variables and modules[:1] == [str(PROJECT)]
    return modules[1:] if is_own else modules
