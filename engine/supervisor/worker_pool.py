"""Starts the worker processes of a run on this machine, and ends them."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from pathlib import Path
from typing import NamedTuple

from engine.cluster.membership import own_environment
from engine.environments.activation import activated
from engine.environments.needs import interpreter_problem
from engine.processes import process_tree
from engine.processes.control_group import ControlGroup
from engine.processes.machine import rank_links
from engine.processes.process import (
    Process,
    can_enter,
    end_group,
    module_environment,
    start_module,
    start_time,
    usable_cores,
)
from engine.processes.process_tree import Identity
from engine.spec.device_names import devices_on, is_logical_cpu
from engine.spec.recipe_file import RecipeInfo
from engine.spec.run_spec import RunSpec
from engine.spec.strategy import Strategy, WorkerPlan
from engine.supervisor.inbox import (
    Launch,
    LaunchedCold,
    LaunchEnded,
    LaunchFailed,
    WorkerExited,
    WorkerLaunched,
)
from engine.system import paths
from engine.telemetry.gpu_makers import gpu_variables
from engine.templates import client as templates
from engine.templates import differences
from engine.templates.forked_process import ForkedProcess
from engine.templates.kinds import SHARED_ENVIRONMENT, kind_for
from engine.templates.protocol import Fork

_log = logging.getLogger(__name__)


class RunPlan(NamedTuple):
    """The data that all attempts of a run share."""

    folder: Path
    spec: RunSpec
    recipe: RecipeInfo
    strategy: Strategy
    workers: Sequence[WorkerPlan]
    control_group: ControlGroup | None = None
    """Where the workers run, if the user may make such a group."""

    machine: str = ""
    """The machine of the cluster whose workers are started; empty: that of the supervisor."""

    @property
    def is_spread(self) -> bool:
        """Whether there are workers on other machines than that of the supervisor."""
        return any(worker.machine for worker in self.workers)

    @property
    def local_workers(self) -> Sequence[WorkerPlan]:
        """The workers that run on this machine, by rank."""
        return [worker for worker in self.workers if worker.machine == self.machine]


class _Command(NamedTuple):
    """How a worker is started; see `engine.templates.protocol.Fork`."""

    module: str
    arguments: list[str]
    environment: dict[str, str]
    folder: str
    log: str


class WorkerPool:
    """The worker processes of one attempt; each is the leader of its own process group."""

    def __init__(self, plan: RunPlan, report: Callable[[Launch | WorkerExited], None]) -> None:
        """`report` is called from threads, about the start and the end of each worker."""
        self._plan = plan
        self._report = report
        self._changing = threading.Lock()
        self._processes: list[Process] = []
        self._identities: list[Identity] = []
        self._is_ended = False

    def start(self, extra_environment: dict[str, str]) -> None:
        """Start all workers, with `extra_environment` in their environment, from a thread.

        Its last report is `LaunchEnded`. Raises OSError if the system refuses the thread.
        """
        launcher = threading.Thread(
            target=self._launch, args=(extra_environment,), daemon=True, name="launch"
        )
        try:
            launcher.start()
        except RuntimeError as error:
            raise OSError(f"No worker could be started: {error}.") from error

    @property
    def size(self) -> int:
        """The number of workers that were started."""
        return len(self._processes)

    def log_file(self, rank: int) -> Path:
        """Return the file with stdout and stderr of `rank`."""
        return paths.log_file(self._plan.folder, rank)

    def end(self, *, kill: bool) -> None:
        """Terminate or kill all workers and their children, also children of dead workers.

        What a worker has started in other groups is killed with it, or adopted and ended later.

        Workers that were to be started later are not.
        """
        with self._changing:
            self._is_ended = True
            processes = list(self._processes)
        if kill:
            process_tree.kill(self._identities)
        for process in processes:
            end_group(process, kill=kill)

    def close(self) -> None:
        """Release what the pool holds besides its processes, which have ended: here nothing."""

    def ask_stacks(self, rank: int) -> None:
        """Let a worker on another machine write its stacks: here there is none."""

    def _launch(self, extra_environment: dict[str, str]) -> None:
        try:
            for worker, process in zip(
                self._plan.local_workers, self._new_processes(extra_environment), strict=False
            ):
                with self._changing:
                    self._processes.append(process)
                    self._identities.append((process.pid, start_time(process.pid)))
                    is_ended = self._is_ended
                self._report(WorkerLaunched(worker.rank, process.pid))
                threading.Thread(
                    target=self._wait, args=(worker.rank, process), daemon=True
                ).start()
                if is_ended:
                    end_group(process, kill=True)
                    return
        except Exception as error:  # whatever it is, the run must not wait for its workers
            _log.info("the launch fails", exc_info=True)
            why = interpreter_problem(self._plan.spec.interpreter) or f"{error}."
            self._report(LaunchFailed(f"A worker could not be started: {why}"))
        finally:
            self._report(LaunchEnded())

    def _new_processes(self, extra_environment: dict[str, str]) -> Iterator[Process]:
        """Start each worker and yield its process: by a fork, or else cold. Raises OSError."""
        workers = self._plan.local_workers
        commands = [self._command(worker.rank, extra_environment) for worker in workers]
        # The process of a script's rank imports no framework: there is nothing to be warm.
        if self._plan.spec.cold_start or self._plan.spec.is_script:
            yield from map(_start_cold, commands)
            return
        if self._plan.spec.interpreter:  # templates are of Traindeck's own Python
            for command in commands:
                yield _start_elsewhere(command, self._plan.spec.interpreter)
            return
        reasons: set[str] = set()
        for command, forked in zip(commands, self._forked(commands), strict=False):
            if self._is_ended and isinstance(forked, templates.NoTemplate):
                return
            if isinstance(forked, templates.NoTemplate):
                if str(forked) not in reasons:
                    reasons.add(str(forked))
                    self._report(LaunchedCold(str(forked)))
                yield _start_cold(command)
            else:
                yield forked

    def _forked(
        self, commands: Sequence[_Command]
    ) -> Iterable[ForkedProcess | templates.NoTemplate]:
        """Let the template fork the workers; return each, or why there is none."""
        kind = kind_for(self._plan.strategy.framework, self._plan.recipe.framework)
        try:
            shell = differences.of_shell()
        except (ImportError, OSError):
            return repeat(templates.NoTemplate("this system has no templates"))
        if self._plan.control_group:
            del shell[differences.CONTROL_GROUP]
        requests = [Fork(*command, shell) for command in commands]
        return templates.fork_workers(kind, requests, lambda: self._is_ended)

    def _command(self, rank: int, extra_environment: dict[str, str]) -> _Command:
        plan = self._plan
        environment = _script_environment if plan.spec.is_script else _environment
        return _Command(
            "engine.script_rank" if plan.spec.is_script else "engine.worker",
            [str(plan.folder)],
            module_environment(environment(plan, rank) | extra_environment),
            str(_working_folder(plan)),
            str(self.log_file(rank)),
        )

    def _wait(self, rank: int, process: Process) -> None:
        self._report(WorkerExited(rank, process.wait()))


def _working_folder(plan: RunPlan) -> Path:
    """Return the folder of the recipe, or of the run if that cannot be entered (any more)."""
    folder = Path(plan.recipe.path).parent
    if plan.spec.is_script:
        return plan.folder  # the command itself runs elsewhere
    return folder if can_enter(folder) and not plan.recipe.builtin else plan.folder


def _start_cold(command: _Command | Fork) -> Process:
    """Start a worker as a new program, which imports its framework."""
    return start_module(
        command.module,
        *command.arguments,
        log=Path(command.log),
        environment=command.environment,
        cwd=Path(command.folder),
    )


def _start_elsewhere(command: _Command, interpreter: str) -> Process:
    """Start a worker with the Python of another environment, as if that was activated."""
    return start_module(
        command.module,
        *command.arguments,
        log=Path(command.log),
        environment=activated(command.environment, interpreter),
        cwd=Path(command.folder),
        interpreter=interpreter,
    )


def _script_environment(plan: RunPlan, rank: int) -> dict[str, str]:
    """Return the environment variables of the process that runs a script's command as one rank.

    What the command itself gets, that process decides: see `engine.script_rank.launch`.
    """
    return os.environ | _rank_variables(plan, rank)


def _rank_variables(plan: RunPlan, rank: int) -> dict[str, str]:
    here = [worker.rank for worker in plan.local_workers]
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(here.index(rank)),
        "WORLD_SIZE": str(len(plan.workers)),
        "LOCAL_WORLD_SIZE": str(len(here)),
    }


def _environment(plan: RunPlan, rank: int) -> dict[str, str]:
    """Return the environment variables of one worker; a framework reads them at its import."""
    kind = kind_for(plan.strategy.framework, plan.recipe.framework)
    devices = devices_on(plan.machine, plan.spec.devices)
    gpus = [device for device in devices if not is_logical_cpu(device)]
    threads = max(1, usable_cores() // len(plan.local_workers))
    # With TF_CONFIG, TensorFlow would join the cluster that the variable describes.
    inherited = {name: value for name, value in own_environment().items() if name != "TF_CONFIG"}
    return (
        inherited
        | SHARED_ENVIRONMENT
        | kind.environment
        | _rank_variables(plan, rank)
        | rank_links()
        | gpu_variables(gpus)
        | {
            "OMP_NUM_THREADS": inherited.get("OMP_NUM_THREADS", str(threads)),
            "KERAS_TORCH_DEVICE": "cuda" if gpus else "cpu",
        }
    )
