"""Real runs with every kind of data: as many ranks as one, resumed as never stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine import client
from engine.messages.commands import Stop
from engine.messages.events import Notice, StopStage
from engine.runs.run_state import RunState
from tests.support.runs import (
    curve,
    events,
    failure_of,
    is_training,
    logs,
    spec,
    train,
    wait_for,
    wait_for_end,
    wait_for_event,
)
from tests.support.sentences import sentence

pytestmark = pytest.mark.usefixtures("processes")

RECIPE = """
import ctypes
import threading
from pathlib import Path
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, WeightedRandomSampler

PAUSE = threading.Event()

class Noisy(Dataset):
    def __init__(self, count):
        self.samples = [(f"/data/{k}.png", 0) for k in range(count)]
    def __len__(self):
        return len(self.samples)
    def __getitem__(self, index):
        x = torch.randn(4, generator=torch.Generator().manual_seed(index))
        return {"x": x + 0.1 * torch.rand(4), "y": x.sum(0, keepdim=True), "name": f"s{index}"}

class Stream(IterableDataset):
    def __init__(self, count):
        self.count = count
    def __iter__(self):
        samples = Noisy(self.count)
        return (samples[index] for index in range(self.count))

class Slow(Stream):
    def __iter__(self):
        for number, sample in enumerate(super().__iter__()):
            while number == 100 and Path(__file__).with_name("hold").exists():
                PAUSE.wait(0.01)
            PAUSE.wait(0.01)
            yield sample

class Crashing(Noisy):
    def __getitem__(self, index):
        if index == 17:
            ctypes.string_at(0)  # the crash
        return super().__getitem__(index)

class Hanging(Noisy):
    def __getitem__(self, index):
        if index == 17:
            PAUSE.wait()  # the hang
        return super().__getitem__(index)

METRIC_DIRECTIONS = {"loss": "max"}  # also of test_loss

def stack(samples):
    return {key: torch.stack([sample[key] for sample in samples]) for key in ("x", "y")}

def model(width: int = 8):
    return nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, 1))

def datasets(kind: str = "loader"):
    weights = torch.rand(50, generator=torch.Generator().manual_seed(1))
    sampler = WeightedRandomSampler(weights, 60, generator=torch.Generator().manual_seed(2))
    loader = {"batch_size": 16, "collate_fn": stack}
    if kind == "loader":
        return DataLoader(Noisy(50), sampler=sampler, num_workers=1, **loader), Noisy(20)
    if kind == "stream":
        return Stream(50), {"validation": Stream(20), "test": Noisy(7)}
    if kind == "slow":
        return DataLoader(Slow(200), **loader), None
    if kind == "small":
        return Noisy(9)
    return {"crash": Crashing, "hang": Hanging}[kind](50)

def step(model, batch):
    return nn.functional.mse_loss(model(batch["x"]), batch["y"])

def optimizer(parameters, learning_rate):
    return torch.optim.SGD(parameters, learning_rate)
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    file = tmp_path / "nested.py"
    file.write_text(RECIPE)
    return file


def wanted(recipe: Path, kind: str, strategy: str = "torch/single", **changes: Any) -> Any:
    devices = 2 if strategy == "torch/ddp" else 1
    settings: dict[str, Any] = {"batch_size": 16, "learning_rate": 0.05, "settings": {"kind": kind}}
    return spec(str(recipe), strategy, devices, **(settings | changes))


@pytest.mark.parametrize("kind", [pytest.param("loader", marks=pytest.mark.nightly), "stream"])
def test_ranks_train_like_one_with_loaders_and_streams(kind: str, recipe: Path) -> None:
    runs = [train(wanted(recipe, kind, strategy)) for strategy in ("torch/single", "torch/ddp")]
    for info in runs:
        assert info.state is RunState.FINISHED, f"{info.reason}\n{logs(info)}"
    alone, together = (curve(info, "train/loss")[1] for info in runs)
    assert len(alone) == 8
    assert together == pytest.approx(alone, abs=1e-6)
    metrics = [info.status.metrics for info in runs]
    names = {name for name in metrics[0] if name.startswith("validation/")}
    expected = {"validation/loss"} | ({"validation/test_loss"} if kind == "stream" else set())
    assert names == expected
    assert runs[1].status.metric_directions == dict.fromkeys(
        (name.removeprefix("validation/") for name in expected), "max"
    )
    for name in names:
        assert metrics[1][name] == pytest.approx(metrics[0][name], abs=1e-6)


def test_a_stopped_stream_is_resumed_as_if_it_had_not_been(recipe: Path) -> None:
    whole = train(wanted(recipe, "slow", epochs=1))
    hold = recipe.with_name("hold")
    hold.touch()
    run_id = client.start(wanted(recipe, "slow", epochs=1))
    wait_for(run_id, is_training)
    wait_for_event(run_id, StopStage, client.send(run_id, Stop()))
    hold.unlink()
    stopped = wait_for_end(run_id)
    assert 0 < stopped.status.step < 13, "it was stopped within the epoch"
    client.resume(run_id)
    resumed = wait_for_end(run_id)
    assert resumed.state is RunState.FINISHED, logs(resumed)
    assert curve(resumed, "train/loss") == curve(whole, "train/loss")


def test_a_crash_of_a_loader_worker_is_the_line_and_the_sample(recipe: Path) -> None:
    failure = failure_of(train(wanted(recipe, "crash", loader_workers=2)))
    line = 1 + next(n for n, text in enumerate(RECIPE.splitlines()) if "# the crash" in text)
    assert failure.message == sentence("rank-failed-loader-worker-was-ended", line=line)
    assert failure.where == f"{recipe}:{line}"


def test_a_hang_of_a_loader_worker_is_its_line(recipe: Path) -> None:
    line = 1 + next(n for n, text in enumerate(RECIPE.splitlines()) if "# the hang" in text)
    place = f"Rank 0 on cpu:0 is in __getitem__ (nested.py:{line})"
    run_id = client.start(wanted(recipe, "hang", loader_workers=1, hang_minutes=0.005))
    try:  # on a busy machine, a slow step may be taken for a hang before
        wait_for(run_id, lambda info: place in info.status.troubles.get("hang", ""))
    finally:
        client.send(run_id, Stop(now=True))
        wait_for_end(run_id)


def test_a_batch_larger_than_the_data_is_said_once(recipe: Path) -> None:
    info = train(wanted(recipe, "hang", batch_size=64, epochs=2, settings={"kind": "small"}))
    assert info.state is RunState.FINISHED, logs(info)
    assert len(curve(info, "train/loss")[0]) == 2
    said = [e.text for e in events(info) if isinstance(e, Notice) and "is larger than" in e.text]
    assert said == [sentence("batch-size-is-larger-than-training-data-samples-each")]
