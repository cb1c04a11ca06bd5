"""Runs that fail, and runs that are ended: with real processes and real signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from engine import client
from engine.facts import recorder
from engine.messages.commands import SaveCheckpoint, Stop
from engine.messages.events import CheckpointSaved, StopStage
from engine.processes.process import is_alive
from engine.runs.run_info import LONGEST_START
from engine.runs.run_state import RunState
from engine.supervisor.__main__ import LOCK_SECONDS
from tests.support.runs import (
    curve,
    events,
    failure_of,
    is_training,
    spec,
    train,
    wait_for,
    wait_for_end,
    wait_for_event,
    wait_until_gone,
)

pytestmark = pytest.mark.usefixtures("processes")

HEAD = """
import os, signal, time
import torch
from torch import nn

def model():
    return nn.Linear(4, 1)

def datasets():
    x = torch.ones(64, 4)
    return (x, x.sum(1, keepdim=True)), (x[:8], x[:8].sum(1, keepdim=True))
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Iterator[Path]:
    """A file to write a recipe to; all runs are ended after the test."""
    yield tmp_path / "broken.py"
    for info in client.runs():
        if not info.state.is_over:
            client.send(info.id, Stop(now=True))
            wait_until_gone(wait_for_end(info.id))


def line_of(recipe: Path, text: str) -> int:
    return next(n for n, line in enumerate(recipe.read_text().splitlines(), 1) if text in line)


def test_a_recipe_that_raises_is_named_with_its_line_and_its_log(recipe: Path) -> None:
    recipe.write_text(
        HEAD
        + """
def loss(outputs, targets):
    print("a word before the end")
    raise ValueError("these targets make no sense")
"""
    )
    failure = failure_of(train(spec(str(recipe), "torch/ddp", 2)))
    assert "ValueError: these targets make no sense" in failure.message
    assert failure.where == f"{recipe}:{line_of(recipe, 'raise ValueError')}"
    assert "a word before the end" in failure.log_tail
    assert "Traceback" not in failure.message


def test_only_one_rank_raises_and_it_is_the_one_named(recipe: Path) -> None:
    recipe.write_text(
        HEAD
        + """
def loss(outputs, targets):
    if os.environ["RANK"] == "1":
        raise ValueError("only I fail")
    return ((outputs - targets) ** 2).mean()
"""
    )
    failure = failure_of(train(spec(str(recipe), "torch/ddp", 2)))
    assert (failure.rank, failure.device) == (1, "cpu:1")
    assert "only I fail" in failure.message


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import no_such_package_anywhere", "no_such_package_anywhere"),
        ("raise SystemExit('I would rather not')", "I would rather not"),
        ("def metrics(outputs, targets):\n    os._exit(3)", "exit code 3"),
        ("def metrics(outputs, targets):\n    os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV"),
    ],
)
def test_every_kind_of_failure_has_one_sentence(recipe: Path, code: str, expected: str) -> None:
    recipe.write_text(HEAD + code + "\n")
    assert expected in failure_of(train(spec(str(recipe), "torch/single"))).message


def test_a_worker_killed_from_outside_is_named_with_its_signal() -> None:
    run_id = client.start(spec("probe_torch", "torch/ddp", 2, epochs=1_000_000))
    info = wait_for(run_id, is_training)
    os.kill(info.status.worker_pids[1], signal.SIGKILL)
    failure = failure_of(wait_for_end(run_id))
    assert (failure.rank, failure.device, failure.signal) == (1, "cpu:1", "SIGKILL")


def test_children_of_a_worker_end_with_it(recipe: Path, tmp_path: Path) -> None:
    note = tmp_path / "child"
    recipe.write_text(
        HEAD
        + f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
open({str(note)!r}, "w").write(str(child.pid))
os._exit(5)
"""
    )
    failure_of(train(spec(str(recipe), "torch/single")))
    child = int(note.read_text())
    assert not psutil.pid_exists(child) or (psutil.Process(child).status() == psutil.STATUS_ZOMBIE)


def test_workers_end_when_their_supervisor_is_killed_and_the_run_resumes() -> None:
    wanted = spec("probe_torch", "torch/ddp", 2, epochs=1_000_000, orphan_seconds=3600)
    run_id = client.start(wanted)
    wait_for(run_id, is_training)
    seq = client.send(run_id, SaveCheckpoint())
    saved = wait_for_event(run_id, CheckpointSaved, seq)
    info = client.get_run(run_id)
    os.kill(info.status.supervisor_pid, signal.SIGKILL)
    wait_until_gone(info)

    interrupted = client.get_run(run_id)
    assert interrupted.state is RunState.INTERRUPTED
    with pytest.raises(client.CommandFailed, match="not active"):
        client.send(run_id, Stop())

    client.resume(run_id)
    wait_for(run_id, lambda now: now.status.attempt == 2 and now.status.step > saved.step + 2)
    client.send(run_id, Stop())
    resumed = wait_for_end(run_id)
    steps, _ = curve(resumed, "train/loss")
    assert steps == list(range(1, resumed.status.step + 1))


def test_stop_while_the_workers_start_ends_them_at_once(recipe: Path) -> None:
    recipe.write_text(HEAD + "time.sleep(1000)\n")
    run_id = client.start(spec(str(recipe), "torch/single"))
    client.send(run_id, Stop())
    info = wait_for_end(run_id)
    assert (info.state, info.reason) == (RunState.STOPPED, "Stopped before the training began.")
    wait_until_gone(info)


def test_a_resumed_run_that_is_stopped_while_its_workers_start_says_where_it_stands(
    recipe: Path,
) -> None:
    recipe.write_text(HEAD + "if os.environ['TRAINDECK_ATTEMPT'] == '2': time.sleep(1000)\n")
    run_id = client.start(spec(str(recipe), "torch/single", epochs=1_000_000))
    wait_for(run_id, lambda info: info.status.step > 3)
    client.send(run_id, Stop())
    stopped = wait_for_end(run_id)
    client.resume(run_id)
    wait_for(run_id, lambda info: info.status.attempt == 2)
    client.send(run_id, Stop())
    info = wait_for_end(run_id)
    step = stopped.status.step
    assert (info.state, info.status.step) == (RunState.STOPPED, step)
    assert info.reason == f"Stopped before the training went on after step {step}."
    wait_until_gone(info)


def test_a_worker_that_ignores_commands_is_ended_by_force(recipe: Path) -> None:
    recipe.write_text(
        HEAD
        + """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def loss(outputs, targets):
    print("asleep")
    time.sleep(1000)
"""
    )
    run_id = client.start(spec(str(recipe), "torch/single"))
    log = client.get_run(run_id).folder / "logs" / "rank0.log"
    wait_for(run_id, lambda _: log.exists() and "asleep" in log.read_text())
    client.send(run_id, Stop())
    wait_for(run_id, lambda info: info.state is RunState.STOPPING)
    client.send(run_id, Stop(now=True))
    info = wait_for_end(run_id)
    assert info.state is RunState.STOPPED
    stages = [event.stage for event in events(info) if isinstance(event, StopStage)]
    assert stages == ["ask", "terminate", "kill"]
    wait_until_gone(info)


def test_a_resume_waits_longer_than_the_supervisor_before_it_takes_to_exit() -> None:
    facts = recorder.LAST_SECONDS + recorder.MOST_THREADS * recorder.GIT_SECONDS
    assert 2 * facts < LOCK_SECONDS
    assert LONGEST_START > 2 * LOCK_SECONDS


def test_a_run_has_one_supervisor() -> None:
    run_id = client.start(spec("probe_torch", "torch/single", epochs=1_000_000))
    info = wait_for(run_id, is_training)
    second = subprocess.run(
        [sys.executable, "-m", "engine.supervisor", str(info.folder)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert second.returncode == 1
    assert "active already" in second.stderr
    assert is_alive(info.status.supervisor_pid, info.status.supervisor_created)
    with pytest.raises(client.CannotStart, match="stop it first"):
        client.resume(run_id)
    client.send(run_id, Stop(now=True))
    wait_for_end(run_id)


def test_a_loss_that_is_not_a_number_is_recorded_as_such(recipe: Path) -> None:
    recipe.write_text(
        HEAD
        + "\ndef loss(outputs, targets):\n    return (outputs - targets).mean() * float('nan')\n"
    )
    info = train(spec(str(recipe), "torch/single"))
    assert info.state is RunState.FINISHED
    _, losses = curve(info, "train/loss")
    assert len(losses) == 4
    assert all(loss != loss for loss in losses)


def test_the_recipes_settings_reach_its_functions(recipe: Path) -> None:
    recipe.write_text(
        HEAD.replace("def model():", "def model(scale: float = 1.0):").replace(
            "return nn.Linear(4, 1)", "print('scale is', scale); return nn.Linear(4, 1)"
        )
    )
    info = train(spec(str(recipe), "torch/single", settings={"scale": 2.5}))
    assert "scale is 2.5" in (info.folder / "logs" / "rank0.log").read_text()
