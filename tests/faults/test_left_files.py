"""What libraries leave in the temporary folder goes with the run, however it ends."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import client
from engine.messages.commands import Stop
from engine.runs.run_state import RunState
from tests.support.runs import logs, spec, train, wait_for, wait_for_end

pytestmark = pytest.mark.usefixtures("processes")

RECIPE = """
import multiprocessing
import time
import torch

manager = multiprocessing.Manager()
seen = manager.list()

def model():
    return torch.nn.Linear(4, 1)

def datasets():
    return ((torch.ones(64, 4), torch.ones(64, 1)),) * 2

def loss(outputs, targets):
    seen.append(1)
    print("has", len(seen), flush=True)
    time.sleep(0.01)
    return ((outputs - targets) ** 2).mean()
"""
KERAS = """
import keras
import numpy as np

def model():
    return keras.Sequential([keras.layers.Dense(1)])

def datasets():
    return ((np.ones((64, 4), "float32"), np.ones((64, 1), "float32")),) * 2

def loss(outputs, targets):
    error = outputs - targets
    return keras.ops.mean(error * error)
"""


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The temporary folder of the run's processes; its path is short, as that of a socket."""
    with tempfile.TemporaryDirectory(prefix="t") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        yield Path(folder)


def left(temporary: Path) -> list[str]:
    """What a run has there. The cache of PyTorch's compiler serves later runs too."""
    return sorted(path.name for path in temporary.iterdir() if "torchinductor" not in path.name)


def stays_empty(temporary: Path) -> None:
    """The supervisor removes its own socket when it exits, after the last event of the run."""
    deadline = time.monotonic() + 60.0
    while left(temporary) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left(temporary) == []


@pytest.mark.parametrize(
    ("strategy", "source"),
    [("torch/ddp", RECIPE), pytest.param("tf/single", KERAS, marks=pytest.mark.nightly)],
)
def test_a_run_that_finishes_leaves_nothing(
    temporary: Path, tmp_path: Path, strategy: str, source: str
) -> None:
    recipe = tmp_path / "mine.py"
    recipe.write_text(source)
    info = train(spec(str(recipe), strategy, 2 if "ddp" in strategy else 1, epochs=1))
    assert info.state is RunState.FINISHED, f"{info.reason}\n{logs(info)}"
    stays_empty(temporary)


def test_a_run_that_is_ended_at_once_leaves_nothing(temporary: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "mine.py"
    recipe.write_text(RECIPE)
    run_id = client.start(spec(str(recipe), "torch/single", 1, epochs=1_000_000))
    wait_for(run_id, lambda info: info.status.step > 2)
    assert left(temporary) != [], "it is in use"
    client.send(run_id, Stop(now=True))
    assert wait_for_end(run_id).state is RunState.STOPPED
    stays_empty(temporary)
