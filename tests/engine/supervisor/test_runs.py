"""Runs that fail, and runs that are ended: with real processes and real signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine import client
from engine.facts import recorder
from engine.messages.commands import Stop
from engine.processes.process import is_alive, start_module
from engine.runs.run_info import LONGEST_START
from engine.supervisor.__main__ import LOCK_SECONDS
from tests.support import impatient_supervisor
from tests.support.runs import (
    failure_of,
    is_training,
    spec,
    train,
    wait_for,
    wait_for_end,
    wait_until_gone,
)
from tests.support.sentences import sentence

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


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("raise SystemExit('I would rather not')", "I would rather not"),
        ("def metrics(outputs, targets):\n    os._exit(3)", "exit code 3"),
    ],
)
def test_a_worker_that_leaves_by_itself_is_named(recipe: Path, code: str, expected: str) -> None:
    recipe.write_text(HEAD + code + "\n")
    assert expected in failure_of(train(spec(str(recipe), "torch/single"))).message


def test_workers_that_never_get_ready_are_named_and_ended(
    recipe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cold one: a forked one may be ready at once."""

    def start(module: str, *arguments: str, **named: Any) -> subprocess.Popen[bytes]:
        return start_module(impatient_supervisor.__name__, *arguments, **named)

    monkeypatch.setattr(client, "start_module", start)
    monkeypatch.setenv(impatient_supervisor.START_SECONDS, "2.0")
    recipe.write_text(f"{HEAD}signal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(1000)\n")
    failure = failure_of(train(spec(str(recipe), "torch/single", cold_start=True)))
    assert failure.message.startswith(sentence("rank-did-not-start-within-logs"))


def test_a_worker_killed_from_outside_is_named_with_its_signal() -> None:
    run_id = client.start(spec("probe_torch", "torch/ddp", 2, epochs=1_000_000))
    info = wait_for(run_id, is_training)
    os.kill(info.status.worker_pids[1], signal.SIGKILL)
    failure = failure_of(wait_for_end(run_id))
    assert (failure.rank, failure.device, failure.signal) == (1, "cpu:1", "SIGKILL")


def test_a_resume_waits_longer_than_the_supervisor_before_it_takes_to_exit() -> None:
    facts = recorder.LAST_SECONDS + recorder.MOST_THREADS * recorder.GIT_SECONDS
    assert 2 * facts < LOCK_SECONDS
    assert LONGEST_START > 2 * LOCK_SECONDS


def test_a_run_has_one_supervisor() -> None:
    run_id = client.start(spec("probe_torch", "torch/single", epochs=1_000_000))
    info = wait_for(run_id, is_training)
    second = subprocess.run(
        [sys.executable, "-m", impatient_supervisor.__name__, str(info.folder)],
        env=os.environ | {impatient_supervisor.LOCK_SECONDS: "1.0"},
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


def test_the_recipes_settings_reach_its_functions(recipe: Path) -> None:
    recipe.write_text(
        HEAD.replace("def model():", "def model(scale: float = 1.0):").replace(
            "return nn.Linear(4, 1)", "print('scale is', scale); return nn.Linear(4, 1)"
        )
    )
    info = train(spec(str(recipe), "torch/single", settings={"scale": 2.5}))
    assert "scale is 2.5" in (info.folder / "logs" / "rank0.log").read_text()
