"""A kernel that fails: Python hears of it steps later, and a second attempt finds the line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.client import RunInfo
from engine.messages.events import Notice
from engine.runs.run_state import RunState
from tests.support.runs import events, failure_of, spec, train

pytestmark = pytest.mark.usefixtures("processes")

RECIPE = """
import os
import torch
from torch import nn

IS_BLOCKING = os.environ.get("CUDA_LAUNCH_BLOCKING") == "1"
ERROR = "CUDA error: device-side assert triggered\\nFor debugging consider ..."
steps = 0

def model():
    return nn.Linear(2, 3)

def datasets():
    inputs = torch.randn(64, 2)
    return (inputs, inputs.argmax(1))

def loss(outputs, targets):
    global steps
    steps += 1
    if IS_BLOCKING and steps == WRONG:
        raise RuntimeError(ERROR)  # the wrong line
    return nn.functional.cross_entropy(outputs, targets)

class Descent(torch.optim.SGD):
    def step(self, closure=None):
        if not IS_BLOCKING and steps == 6:
            raise RuntimeError(ERROR)  # an innocent line
        return super().step(closure)

def optimizer(parameters, learning_rate):
    return Descent(parameters, learning_rate)
"""


def run(tmp_path: Path, wrong: int, **changes: Any) -> RunInfo:
    file = tmp_path / "fails.py"
    file.write_text(f"WRONG = {wrong}\n{RECIPE}")
    return train(spec(str(file), "torch/single", batch_size=8, epochs=1, **changes))


def line_of(tmp_path: Path, words: str) -> int:
    lines = (tmp_path / "fails.py").read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if words in line)


def test_a_second_attempt_names_the_line(tmp_path: Path) -> None:
    """It is none of the restarts, of which none is allowed."""
    info = run(tmp_path, wrong=4)
    assert (info.state, info.status.attempt) == (RunState.FAILED, 2)
    failure = failure_of(info)
    assert failure.where.endswith(f":{line_of(tmp_path, 'the wrong line')}")
    assert "index out of range" in failure.message
    assert "step" in failure.message
    assert "In batch 4 of the epoch" in failure.details
    [said] = [e.text for e in events(info) if isinstance(e, Notice) and "once more" in e.text]
    assert "index out of range" in said


def test_if_no_kernel_fails_then_the_run_goes_on(tmp_path: Path) -> None:
    info = run(tmp_path, wrong=0)
    assert (info.state, info.status.attempt) == (RunState.FINISHED, 2)


def test_no_innocent_line_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a user who waits for kernels already is not made to wait twice."""
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    info = run(tmp_path, wrong=4)
    assert info.status.attempt == 1
    assert failure_of(info).where.endswith(f":{line_of(tmp_path, 'the wrong line')}")
    monkeypatch.delenv("CUDA_LAUNCH_BLOCKING")
    again = run(tmp_path, wrong=4, max_restarts=3)
    assert again.status.attempt == 2
