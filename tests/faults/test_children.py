"""Processes that a recipe starts: their end costs the run nothing, and they end with the run."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import psutil
import pytest

from engine import client
from engine.client import RunInfo
from engine.messages.commands import SaveCheckpoint, Stop
from engine.messages.events import CheckpointSaved, Restarting
from engine.processes import control_group
from engine.processes.process import ON_LINUX, ORPHANED, start_module
from engine.runs.run_state import RunState
from tests.support.runs import (
    curve,
    events,
    helper_of,
    is_training,
    spec,
    wait_for,
    wait_for_end,
    wait_for_event,
    wait_until_gone,
)

pytestmark = [
    pytest.mark.usefixtures("processes"),
    pytest.mark.skipif(os.name != "posix", reason="it forks"),
]

COLD_IS_NIGHTLY = pytest.mark.parametrize(
    "cold", [False, pytest.param(True, marks=pytest.mark.nightly)], ids=["warm", "cold"]
)

RECIPE = """
import os, multiprocessing, socket, subprocess, sys, time
from pathlib import Path
import torch

HERE = Path(__file__).parent
steps = 0

def model(): return torch.nn.Linear(4, 1)
def datasets(): return ((torch.ones(640, 4), torch.ones(640, 1)),) * 2

def loss(outputs, targets):
    global steps
    if torch.is_grad_enabled():
        time.sleep(0.002)
        steps += 1
        if steps == 20:
            at_step_20()
    return ((outputs - targets) ** 2).mean()

"""

FORKS = """
def at_step_20():
    statuses = []
    for end in (lambda: sys.exit(3), lambda: os._exit(3), lambda: 1 / 0):
        if not (pid := os.fork()):
            end()
        statuses.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    child = multiprocessing.get_context("fork").Process(target=sys.exit, args=(3,))
    child.start()
    child.join()
    (HERE / "seen").write_text(f"{statuses} {child.exitcode}")
"""

CUTS_LINE = """
def at_step_20():
    world, rank = os.environ["WORLD_SIZE"], os.environ["RANK"]
    if (HERE / "cut").exists() or int(rank) != int(world) - 1:
        return
    (HERE / "cut").touch()
    for name in os.listdir("/proc/self/fd"):
        try:
            with socket.socket(fileno=os.dup(int(name))) as found:
                if found.family == socket.AF_UNIX:  # gloo connects the ranks by TCP
                    found.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # no socket
"""


@COLD_IS_NIGHTLY
def test_a_forked_child_that_ends_does_not_end_the_connection(tmp_path: Path, cold: bool) -> None:
    recipe = tmp_path / "forks.py"
    recipe.write_text(RECIPE + FORKS)
    run_id = client.start(spec(str(recipe), "torch/single", epochs=1_000_000, cold_start=cold))
    info = wait_for(run_id, lambda info: info.status.step > 60)
    assert (tmp_path / "seen").read_text() == "[3, 3, 1] 3"
    seq = client.send(run_id, SaveCheckpoint())
    wait_for_event(run_id, CheckpointSaved, after=seq)
    client.send(run_id, Stop())
    info = wait_for_end(run_id)
    assert info.state is RunState.STOPPED, info.reason
    assert curve(info, "train/loss")[0] == list(range(1, info.status.step + 1))


def test_a_worker_that_lives_without_its_connection_is_a_failure(tmp_path: Path) -> None:
    """It is named; with restarts allowed the run goes on, and no step and no point is lost."""
    recipe = tmp_path / "cuts.py"
    recipe.write_text(RECIPE + CUTS_LINE)
    run_id = client.start(
        spec(str(recipe), "torch/ddp", 2, epochs=1_000_000, max_restarts=1, orphan_seconds=3600)
    )
    wait_for(run_id, lambda info: info.status.attempt == 2 and is_training(info))
    client.send(run_id, Stop())
    info = wait_for_end(run_id)
    [restarted] = [event for event in events(info) if isinstance(event, Restarting)]
    assert (restarted.failure.rank, restarted.failure.exit_code) == (1, ORPHANED)
    assert curve(info, "train/loss")[0] == list(range(1, info.status.step + 1))
    wait_until_gone(info)


STARTS = """
SLEEP = ["sleep", "1000"]
STUBBORN = [sys.executable, "-c", (
    "import pathlib, signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    "pathlib.Path(sys.argv[1]).touch(); time.sleep(1000)"
)]

def at_step_20():
    read_end, write_end = os.pipe()
    if not (pid := os.fork()):  # a daemon, as of a textbook
        os.setsid()
        if not (daemon := os.fork()):
            os.execvpe("sleep", SLEEP, {"PATH": os.environ["PATH"]})
        os.write(write_end, str(daemon).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    stubborn = HERE / f"stubborn-{os.environ['TRAINDECK_ATTEMPT']}"
    pids = [
        os.read(read_end, 20).decode(),
        subprocess.Popen(SLEEP).pid,
        subprocess.Popen([*STUBBORN, str(stubborn)], start_new_session=True).pid,
    ]
    while not stubborn.exists():
        time.sleep(0.01)
    new = HERE / "new"
    new.write_text(" ".join(map(str, pids)))
    new.rename(HERE / f"pids-{os.environ['TRAINDECK_ATTEMPT']}")
"""


@pytest.mark.skipif(not ON_LINUX, reason="the descendants of a process are found on Linux only")
@COLD_IS_NIGHTLY
def test_what_a_recipe_has_started_lives_during_the_run_and_ends_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cold: bool
) -> None:
    """Also a daemon in a session of its own, and a program that ignores SIGTERM.

    There is no control group, which would end them anyway.
    """

    def start(module: str, *arguments: str, **named: Any) -> subprocess.Popen[bytes]:
        assert module == "engine.supervisor"
        return start_module("tests.support.groupless_supervisor", *arguments, **named)

    monkeypatch.setattr(client, "start_module", start)
    recipe = tmp_path / "starts.py"
    recipe.write_text(RECIPE + STARTS)
    run_id = client.start(spec(str(recipe), "torch/single", epochs=1_000_000, cold_start=cold))

    def started(attempt: int) -> tuple[RunInfo, list[psutil.Process]]:
        pids = tmp_path / f"pids-{attempt}"
        wait_for(run_id, lambda info: info.status.attempt == attempt and pids.exists())
        info = client.get_run(run_id)
        info = wait_for(run_id, lambda now: now.status.step > info.status.step + 30)
        found = [psutil.Process(int(pid)) for pid in pids.read_text().split()]
        assert all(process.is_running() for process in found), "they belong to the training"
        return info, found

    def stop(info: RunInfo) -> None:
        client.send(run_id, Stop())

    def kill_worker(info: RunInfo) -> None:
        client.send(run_id, SaveCheckpoint())
        wait_for(run_id, lambda now: now.status.checkpoint_step > info.status.checkpoint_step)
        os.kill(info.status.worker_pids[0], signal.SIGKILL)

    def kill_supervisor(info: RunInfo) -> None:
        os.kill(info.status.supervisor_pid, signal.SIGKILL)

    def stop_at_once(info: RunInfo) -> None:
        client.send(run_id, Stop(now=True))

    ends = (kill_worker, kill_supervisor) if cold else (stop, kill_worker, stop_at_once)
    for attempt, end in enumerate(ends, 1):
        if attempt > 1:
            client.resume(run_id)
        info, left = started(attempt)
        end(info)
        wait_for_end(run_id)
        _, left = psutil.wait_procs(left, 60.0)
        assert not left, f"{end.__name__}: {left}"
        wait_until_gone(info)


@pytest.mark.nightly
def test_nothing_is_left_of_a_run_in_a_control_group_if_all_its_parents_are_killed(
    tmp_path: Path, own_templates: Path
) -> None:
    """Only the group tells whose process it is, once worker, template and supervisor are gone."""
    probe = control_group.create("test")
    if probe is None:
        pytest.skip("this user may not make a control group")
    probe.remove()
    recipe = tmp_path / "starts.py"
    recipe.write_text(RECIPE + STARTS)
    run_id = client.start(spec(str(recipe), "torch/single", epochs=1_000_000))
    pids = tmp_path / "pids-1"
    info = wait_for(run_id, lambda info: pids.exists())
    group = own_group(info.status.worker_pids[0])
    assert group != own_group(info.status.supervisor_pid)
    left = [psutil.Process(int(pid)) for pid in pids.read_text().split()]
    # It is started beside the workers.
    wait_for(run_id, lambda info: helper_of(info, "engine.processes.guardian") is not None)
    guardian = helper_of(info, "engine.processes.guardian")
    assert guardian is not None
    guardian.suspend()  # it must not see what is below the worker
    template = int((own_templates / "torch.lock").read_text())
    for pid in (info.status.supervisor_pid, template, info.status.worker_pids[0]):
        os.kill(pid, signal.SIGKILL)
    wait_until_gone(info)
    assert all(process.is_running() for process in left)
    guardian.resume()
    _, left = psutil.wait_procs(left, 60.0)
    assert not left
    guardian.wait(60.0)
    assert not any((mount / group).exists() for mount in control_group._MOUNTS)


def own_group(pid: int) -> str:
    """The path of the control group of a process, without a slash in front."""
    lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    return next(line.removeprefix("0::/") for line in lines if line.startswith("0::/"))
