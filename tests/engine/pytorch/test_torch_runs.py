"""PyTorch runs with options and accidents that need real workers."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from engine import client
from engine.client import RunInfo
from engine.runs.run_state import RunState
from engine.spec import catalog
from tests.support.contract import assert_alike, plain, probe
from tests.support.runs import (
    curve,
    failure_of,
    is_training,
    logs,
    spec,
    train,
    wait_for,
    wait_for_end,
)
from tests.support.sentences import sentence
from tests.support.trained_runs import trained

pytestmark = pytest.mark.usefixtures("processes")

HEAD = """
import torch
from torch import nn

def model():
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))

def datasets():
    x = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
    return (x, x.sum(1, keepdim=True)), (x[:8], x[:8].sum(1, keepdim=True))
"""


def finished(**changes: Any) -> RunInfo:
    info = train(spec(changes.pop("recipe", "probe_torch"), changes.pop("strategy"), **changes))
    assert info.state is RunState.FINISHED, f"{info.reason}\n{logs(info)}"
    return info


@pytest.mark.parametrize("strategy", ["torch/ddp", "torch/fsdp", "torch/pipeline"])
def test_a_killed_rank_is_named_within_seconds(strategy: str) -> None:
    run_id = client.start(spec("probe_torch", strategy, 2, epochs=1_000_000))
    info = wait_for(run_id, is_training)
    killed = time.monotonic()
    os.kill(info.status.worker_pids[1], signal.SIGKILL)
    failure = failure_of(wait_for_end(run_id))
    print(f"{strategy}: SIGKILL of rank 1 to the terminal event: {time.monotonic() - killed:.2f} s")
    assert (failure.rank, failure.device, failure.signal) == (1, "cpu:1", "SIGKILL")


def test_a_loss_that_is_no_number_ends_the_run_when_that_is_asked_for(tmp_path: Path) -> None:
    recipe = tmp_path / "diverges.py"
    recipe.write_text(
        HEAD
        + "\ncalls = 0\n\n"
        + "def loss(outputs, targets):\n"
        + "    global calls\n"
        + "    calls += torch.is_grad_enabled()\n"
        + "    return ((outputs - targets) ** 2).mean() * (float('nan') if calls > 6 else 1)\n"
    )
    info = train(spec(str(recipe), "torch/ddp", 2, epochs=1000, on_nan="stop"))
    failure = failure_of(info)
    assert "step 7" in failure.message
    assert "learning rate" in failure.message
    assert "Error" not in failure.message


def test_the_parts_of_the_step_time_are_what_the_steps_of_two_ranks_take(tmp_path: Path) -> None:
    """A sleep never ends early, so these bounds hold on a machine of any speed."""
    recipe = tmp_path / "slow.py"
    recipe.write_text(
        """
import time
import torch
from torch import nn

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 128

    def __getitem__(self, index):
        time.sleep(0.00125)  # 20 ms for 16 samples of a rank
        return torch.ones(4), torch.ones(1)

class Model(nn.Linear):
    def forward(self, inputs):
        time.sleep(0.03)
        return super().forward(inputs)

def model():
    return Model(4, 1)

def datasets():
    return Data(), None

def loss(outputs, targets):
    return ((outputs - targets) ** 2).mean()
"""
    )
    info = finished(recipe=str(recipe), strategy="torch/ddp", devices=2)
    steps, seconds = curve(info, "train/step_seconds")
    assert steps
    assert min(seconds) >= 0.05
    shares = {}
    for part in ("data", "compute", "communication"):
        of_step = dict(zip(*curve(info, f"rank/0/{part}_share"), strict=True))
        shares[part] = [of_step[step] for step in steps]
    for step_time, data, compute, communication in zip(seconds, *shares.values(), strict=True):
        assert data * step_time >= 0.02
        assert (compute + communication) * step_time >= 0.03
        assert data + compute + communication == pytest.approx(1)


def test_out_of_memory_says_how_much_and_what_to_try(tmp_path: Path) -> None:
    recipe = tmp_path / "huge.py"
    recipe.write_text(
        HEAD
        + "\ndef loss(outputs, targets):\n    return torch.empty(2**58, dtype=torch.uint8).sum()\n"
    )
    failure = failure_of(train(spec(str(recipe), "torch/single", batch_size=32)))
    assert sentence("cpu-is-out-of-memory-gib") in failure.message
    assert sentence("computes-samples-at-once") in failure.message
    assert failure.where.startswith(f"{recipe}:")


def test_loader_workers_fetch_the_same_samples(tmp_path: Path) -> None:
    recipe = tmp_path / "pictures.py"
    recipe.write_text(
        HEAD.replace("def datasets():", "def pairs():")
        + """
class Noisy(torch.utils.data.Dataset):
    def __len__(self):
        return 30
    def __getitem__(self, index):
        x = torch.full((4,), float(index)) / 30 + torch.rand(4)
        return x, x.sum(0, keepdim=True)

def datasets():
    return Noisy(), Noisy()
"""
    )
    losses = [
        curve(
            finished(
                recipe=str(recipe), strategy="torch/single", loader_workers=workers, batch_size=8
            ),
            "train/loss",
        )[1]
        for workers in (0, 2)
    ]
    assert losses[0] == losses[1]


@pytest.mark.parametrize(
    ("strategy", "precision"),
    [
        ("torch/ddp", "bf16"),
        ("torch/fsdp", "fp16"),
        pytest.param("torch/ddp", "fp16", marks=pytest.mark.nightly),
        pytest.param("torch/fsdp", "bf16", marks=pytest.mark.nightly),
    ],
)
def test_mixed_precision_trains(strategy: str, precision: str) -> None:
    info = finished(
        strategy=strategy, devices=2, precision=precision, clip_norm=1.0, epochs=5, batch_size=48
    )
    _, losses = curve(info, "train/loss")
    assert losses[-1] < 0.8 * losses[0]


def test_one_device_can_be_split_among_workers() -> None:
    split = trained(probe(catalog.strategy("torch/ddp"), devices=1, workers_per_device=2))
    assert len(split.status.worker_pids) == 2
    assert split.status.replicas == 2
    assert_alike(split, plain(catalog.strategy("torch/single")))
