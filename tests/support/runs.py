"""Real runs with real workers, and functions that wait for their events."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from engine import client
from engine.client import RunInfo
from engine.messages.events import Event, Failure, RunEnded
from engine.runs.run_state import RunState
from engine.runs.store.store_reader import RunReader
from engine.spec.run_spec import RunSpec

RECIPES = Path(__file__).parent.parent / "recipes"
TIMEOUT_SECONDS = 240.0
"""Longest wait in seconds; only a test that fails waits so long."""

POLL_SECONDS = 0.05
"""Time between two reads of a run; each read takes 2 ms of CPU time, also from its workers."""


def spec(recipe: str, strategy: str, devices: int | tuple[str, ...] = 1, **changes: Any) -> RunSpec:
    """A spec; `recipe` is a path, a file in tests/recipes or built in.

    `devices` are names, or a number of logical CPU devices.
    """
    if isinstance(devices, int):
        devices = tuple(f"cpu:{k}" for k in range(devices))
    path = RECIPES / f"{recipe}.py"
    settings: dict[str, Any] = {
        "recipe": str(path) if path.exists() else recipe,
        "strategy": strategy,
        "devices": devices,
        "batch_size": 32,
        "epochs": 2,
        "learning_rate": 0.2,
    }
    return RunSpec(**(settings | changes))


def wait_for_run(program: subprocess.Popen[Any], attempt: int = 1) -> str:
    """Wait until `program` has begun the `attempt`-th attempt of a run, and return its id."""
    pause = threading.Event()
    while not (found := client.runs()) or found[0].status.attempt < attempt:
        assert program.poll() is None, program.communicate()
        pause.wait(POLL_SECONDS)
    return found[0].id


def wait_for(run_id: str, condition: Callable[[RunInfo], bool]) -> RunInfo:
    """Wait until `condition` holds, and return the run. Fails if the run is over before that."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    pause = threading.Event()
    while True:
        info = client.get_run(run_id)
        if condition(info):
            return info
        assert not info.state.is_over, f"{info.state}: {info.reason}\n{logs(info)}"
        assert time.monotonic() < deadline, f"still {info.state} at step {info.status.step}"
        pause.wait(POLL_SECONDS)


def wait_for_end(run_id: str) -> RunInfo:
    """Wait until the run is over, and return it."""
    return wait_for(run_id, lambda info: info.state.is_over)


def wait_for_event(run_id: str, kind: type[Event], after: int = 0) -> Any:
    """Wait for the first event of `kind` after number `after`, and return it."""
    found: list[Event] = []

    def happened(info: RunInfo) -> bool:
        found.extend(e for e in events(info, after) if isinstance(e, kind))
        return bool(found)

    wait_for(run_id, happened)
    return found[0]


def train(wanted: RunSpec) -> RunInfo:
    """Start a run and wait until it is over."""
    return wait_for_end(client.start(wanted))


def events(info: RunInfo, after: int = 0) -> list[Event]:
    """Every event of a run after number `after`."""
    with RunReader(info.folder) as reader:
        return [stored.event for stored in reader.events_after(after)]


def curve(info: RunInfo, series: str) -> tuple[list[int], list[float]]:
    """Steps and values of a series."""
    with RunReader(info.folder) as reader:
        found = reader.points_after(series, 0)
    return found.step.astype(int).tolist(), found.value.tolist()


def failure_of(info: RunInfo) -> Failure:
    """The failure in the terminal event, once every process of the run has ended."""
    assert info.state is RunState.FAILED, info.reason
    [ended] = [event for event in events(info) if isinstance(event, RunEnded)]
    assert ended.failure is not None
    wait_until_gone(info)
    return ended.failure


def logs(info: RunInfo) -> str:
    """What the workers printed."""
    files = sorted((info.folder / "logs").glob("*.log"))
    return "\n".join(f"--- {file.name}\n{file.read_text()[-4000:]}" for file in files)


def is_training(info: RunInfo) -> bool:
    """Whether a few steps are done."""
    return info.state is RunState.RUNNING and info.status.step > info.status.checkpoint_step + 2


def processes_of(info: RunInfo) -> list[psutil.Process]:
    """The supervisor of a run, its workers and the helpers of both, without what serves other runs.

    A template is a child of the supervisor that started it, and the parent of many runs' workers.
    If it is killed, that supervisor adopts them.
    """
    found: list[psutil.Process] = []
    for pid in (info.status.supervisor_pid, *info.status.worker_pids):
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            found.append(process)
            for child in process.children():
                if not is_template(child) and not _is_worker_of_another(child, info):
                    found += [child, *processes_below(child.pid)]
    return list(dict.fromkeys(found))


def helper_of(info: RunInfo, module: str) -> psutil.Process | None:
    """The child of a run's supervisor that runs `module`."""
    for child in psutil.Process(info.status.supervisor_pid).children():
        with contextlib.suppress(psutil.NoSuchProcess):
            if module in child.cmdline():
                return child
    return None


def processes_below(pid: int) -> list[psutil.Process]:
    """The descendants of a process, each after its parent, without those that serve other runs:
    templates, which the tests of all xdist workers share, and what they have forked."""
    found: list[psutil.Process] = []
    with contextlib.suppress(psutil.NoSuchProcess):
        for child in psutil.Process(pid).children():
            if not is_template(child):
                found += [child, *processes_below(child.pid)]
    return found


def _is_worker_of_another(process: psutil.Process, info: RunInfo) -> bool:
    with contextlib.suppress(psutil.Error):
        command = " ".join(process.cmdline())  # that of a forked worker is one argument
        return "engine.worker " in command and not command.endswith(str(info.folder))
    return False


def is_template(process: psutil.Process) -> bool:
    """Whether it is a template, which names itself soon after its start."""
    with contextlib.suppress(psutil.Error):
        command = " ".join(process.cmdline())
        return "traindeck template" in command or "engine.templates" in command
    return False


def wait_until_gone(info: RunInfo, seconds: float = TIMEOUT_SECONDS) -> None:
    """Fail unless every process of the run (its workers, its supervisor) ends within `seconds`."""
    processes = []
    for pid in (*info.status.worker_pids, info.status.supervisor_pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            processes.append(psutil.Process(pid))
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while left := [process for process in processes if _is_alive(process)]:
        assert time.monotonic() < deadline, f"orphans: {left}"
        pause.wait(POLL_SECONDS)


def end_runs() -> None:
    """Kill the runs of `$TRAINDECK_HOME` that are not over."""
    for info in client.runs():
        pid = info.status.supervisor_pid
        if not info.state.is_over and info.state is not RunState.ELSEWHERE and pid != os.getpid():
            with contextlib.suppress(psutil.NoSuchProcess):
                psutil.Process(pid).kill()
            client.end_orphans(info.id, now=True)


def delete_folder(folder: Path) -> None:
    """Delete the folder of a run, also while a window, a thread or a process writes into it.

    It is gone at once for everybody who looks; what makes it anew meanwhile loses it again.
    """
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while folder.exists():
        assert time.monotonic() < deadline, f"{folder} comes again and again"
        with tempfile.TemporaryDirectory(
            dir=folder.parent.parent, ignore_cleanup_errors=True
        ) as aside:
            folder.rename(Path(aside) / folder.name)


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
