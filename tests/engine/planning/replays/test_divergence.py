"""Where two runs begin to differ: planted faults in real runs, and what is said of them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engine import client
from engine.planning.replays.divergence import diverge, rounding_at
from engine.planning.replays.replay import CannotReplay
from engine.planning.results import Divergence
from engine.runs.run_state import THROUGHPUT, RunState
from engine.spec.run_spec import RunSpec
from tests.support.recorded_runs import SPEC, RecordedRun
from tests.support.runs import logs, spec, wait_for_end

TORCH = """
import torch
from torch import nn
from torch.utils.data import TensorDataset

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.drop = nn.Dropout(0.0)
        self.second = nn.Linear(144, 3)

    def forward(self, images):
        return self.second(self.drop(torch.relu(self.norm(self.first(images)))).flatten(1))

def model():
    return Net()

def datasets():
    torch.manual_seed(3)
    return TensorDataset(torch.rand(88, 1, 8, 8), torch.arange(88) % 3), None

def optimizer(parameters, learning_rate):
    return torch.optim.AdamW(parameters, learning_rate, weight_decay=0.01)
"""
NO_DECAY = """
def optimizer(model, learning_rate):
    parts = {True: [], False: []}
    for name, parameter in model.named_parameters():
        parts["norm" in name].append(parameter)
    groups = [{"params": parts[True], "weight_decay": 0.0}, {"params": parts[False]}]
    return torch.optim.AdamW(groups, learning_rate, weight_decay=0.01)
"""
DROPS_LAST = """
def datasets():
    torch.manual_seed(3)
    data = TensorDataset(torch.rand(88, 1, 8, 8), torch.arange(88) % 3)
    return torch.utils.data.DataLoader(data, batch_size=16, drop_last=LAST, shuffle=True), None
"""
# PyTorch's own needs GPUs.
SYNCHRONISED = """
class Sync(nn.BatchNorm2d):
    def forward(self, images):
        from torch.distributed.nn.functional import all_reduce
        mean = all_reduce(images.mean((0, 2, 3))) / 2
        square = all_reduce((images**2).mean((0, 2, 3))) / 2
        scale = self.weight * torch.rsqrt(square - mean**2 + self.eps)
        shape = (1, -1, 1, 1)
        return (images - mean.view(shape)) * scale.view(shape) + self.bias.view(shape)
"""
PADDED = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.pad = nn.ZeroPad2d((0, 1, 0, 1))
        self.first = nn.Conv2d(1, 4, 3, stride=2)
        self.second = nn.Linear(64, 3)

    def forward(self, images):
        return self.second(torch.relu(self.first(self.pad(images))).flatten(1))
"""
KERAS = """
import keras, numpy as np

def model():
    layers = keras.layers
    return keras.Sequential([
        keras.Input((8, 8, 1)),
        layers.Conv2D(4, 3, name="first", kernel_initializer=values(1, (3, 3, 1, 4))),
        layers.BatchNormalization(name="norm"),
        layers.ReLU(), layers.Flatten(),
        layers.Dense(3, name="second", kernel_initializer=values(2, (144, 3))),
    ])

def values(seed, shape):
    found = np.random.default_rng(seed).normal(0, 0.1, shape).astype("float32")
    return lambda shape, dtype=None: keras.ops.convert_to_tensor(found)

def datasets():
    images = np.random.default_rng(3).random((88, 8, 8, 1), "float32")
    return (images, np.arange(88) % 3), None
"""

KERAS_SAME = """
import keras, numpy as np
random = np.random.default_rng(1)
KERNEL = random.normal(0, 0.3, (3, 3, 1, 4)).astype("float32")
DENSE = random.normal(0, 0.3, (64, 3)).astype("float32")
IMAGES = random.random((88, 8, 8, 1), "float32")

def fixed(value):
    return lambda shape, dtype=None: keras.ops.convert_to_tensor(value)

def model():
    layers = keras.layers
    return keras.Sequential([
        keras.Input((8, 8, 1)),
        layers.Conv2D(4, 3, strides=2, padding="same", kernel_initializer=fixed(KERNEL)),
        layers.ReLU(), layers.Flatten(), layers.Dense(3, kernel_initializer=fixed(DENSE)),
    ])

def datasets():
    return (IMAGES, np.arange(88) % 3), None
"""
TORCH_SAME = """
import numpy as np, torch
from torch import nn
random = np.random.default_rng(1)
KERNEL = random.normal(0, 0.3, (3, 3, 1, 4)).astype("float32")
DENSE = random.normal(0, 0.3, (64, 3)).astype("float32")
IMAGES = random.random((88, 8, 8, 1), "float32").transpose(0, 3, 1, 2)

class ChannelsLast(nn.Flatten):
    def forward(self, images):
        return super().forward(images.permute(0, 2, 3, 1))

def model():
    found = nn.Sequential(
        nn.Conv2d(1, 4, 3, stride=2, padding=1), nn.ReLU(), ChannelsLast(), nn.Linear(64, 3)
    )
    with torch.no_grad():
        found[0].weight.copy_(torch.from_numpy(KERNEL.transpose(3, 2, 0, 1)))
        found[3].weight.copy_(torch.from_numpy(DENSE.T))
        found[0].bias.zero_()
        found[3].bias.zero_()
    return found

def datasets():
    return (IMAGES, np.arange(88) % 3), None
"""
PADDED_BY_HAND = TORCH_SAME.replace(", padding=1", "").replace(
    "nn.Conv2d(1", "nn.ZeroPad2d((0, 1, 0, 1)), nn.Conv2d(1"
)
PADDED_BY_HAND = PADDED_BY_HAND.replace("found[3]", "found[4]").replace("found[0]", "found[1]")
BETWEEN = """
def on_epoch(model, epoch, metrics):
    with torch.no_grad():
        model.second.weight.mul_(0.9)
"""
RATE = """
def optimizer(model, learning_rate):
    found = torch.optim.SGD(model.parameters(), learning_rate)
    rate = lambda step: FACTOR if step >= 9 else 1.0
    scheduler = torch.optim.lr_scheduler.LambdaLR(found, rate)
    return {"optimizer": found, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}
"""
DETACHED = """
class Net(Net):
    def forward(self, images):
        found = torch.relu(self.norm(self.first(images)))
        return self.second((found + found.detach()).flatten(1) / 2)
"""


def train(
    recipe: Path, text: str, strategy: str, devices: int, settings: dict[str, Any] | None = None
) -> str:
    """Train a recipe; return the id of its run."""
    recipe.write_text(text)
    given = {"batch_size": 16, "steps": 14, "learning_rate": 0.01, **(settings or {})}
    run = client.start(spec(str(recipe), strategy, devices, **given))
    info = wait_for_end(run)
    assert info.state is RunState.FINISHED, logs(info)
    return run


def compared(folder: Path, one: tuple[Any, ...], other: tuple[Any, ...]) -> Divergence:
    """Train two runs; return where they begin to differ."""
    runs = [train(folder / f"{n}.py", *each) for n, each in enumerate((one, other))]
    found = diverge(*runs)
    print(found.curves, found.answer, *found.notes, f"{found.seconds:.1f} s", sep="\n")
    return found


def changed(old: str, new: str, text: str = TORCH) -> str:
    assert old in text
    return text.replace(old, new)


SINGLE, DDP = ("torch/single", 1), ("torch/ddp", 2)
EPSILON = changed("nn.BatchNorm2d(4)", "nn.BatchNorm2d(4, eps=1e-3)")
DROPOUT = changed("nn.BatchNorm2d(4)", "nn.Identity()", changed("Dropout(0.0)", "Dropout(0.3)"))
SYNC = changed("nn.BatchNorm2d(4)", "Sync(4)") + SYNCHRONISED
SAME = TORCH + PADDED
SYMMETRIC = changed("stride=2", "stride=2, padding=1", changed("ZeroPad2d((0, 1, 0, 1))",
                    "Identity()", SAME))  # fmt: skip
KERAS_EPSILON = changed("Normalization(", "Normalization(epsilon=0.1, ", KERAS)


@pytest.mark.usefixtures("processes")
def test_another_epsilon_is_named_with_its_layer_and_its_line(tmp_path: Path) -> None:
    found = compared(tmp_path, (TORCH, *SINGLE), (EPSILON, *SINGLE))
    assert (found.step, found.cause, found.name, found.equal) == (1, "layer", "norm", 0)
    for phrase in ("norm (BatchNorm2d)", "eps=1e-05 in run 1", "eps=0.001 in run 2", "first (Conv"):
        assert phrase in found.answer
    assert any(line.startswith("+") and "eps=1e-3" in line for line in found.recipe)
    assert not found.notes


@pytest.mark.usefixtures("processes")
@pytest.mark.nightly
@pytest.mark.parametrize(
    ("one", "other", "step", "cause", "name", "phrases"),
    [
        pytest.param(
            (TORCH, *SINGLE),
            (changed("self.second = nn", "self.norm.train = lambda mode=True: self.norm\n"
            "        self.norm.training = False\n        self.second = nn"), *SINGLE),
            1, "layer", "norm", ("evaluation mode in run 2",), id="norm not in training",
        ),
        pytest.param(
            (changed("Dropout(0.0)", "Dropout(0.3)"), *SINGLE),
            (changed("Dropout(0.0)", "Dropout(0.3)") + "\nNet.train = lambda self, mode=True: "
            "nn.Module.train(self, False)", *SINGLE),
            1, "layer", "norm", ("evaluation mode in run 2",), id="model not in training",
        ),
        pytest.param(
            (DROPOUT, *SINGLE),
            (DROPOUT + "\nNet.train = lambda self, mode=True: "
            "nn.Module.train(self, False)", *SINGLE),
            1, "layer", "drop", ("evaluation mode in run 2",), id="dropout not in training",
        ),
        pytest.param(
            (TORCH, *DDP), (SYNC, *DDP),
            1, "layer", "norm", ("Sync", "first (Conv2d)"), id="synchronised norm",
        ),
        pytest.param(
            (TORCH, *SINGLE), (TORCH, *DDP),
            1, "layer", "norm", ("norm (BatchNorm2d)",), id="local norm",
        ),
        pytest.param(
            (SYNC, *DDP), (TORCH, *SINGLE),
            0, "rounding", "", ("No difference beyond rounding",), id="twins on two devices",
        ),
        pytest.param(
            (SAME, *SINGLE), (SYMMETRIC, *SINGLE),
            1, "layer", "pad", ("pad (ZeroPad2d)",), id="padding",
        ),
        pytest.param(
            (TORCH + DROPS_LAST.replace("LAST", "False"), *SINGLE),
            (TORCH + DROPS_LAST.replace("LAST", "True"), *SINGLE),
            6, "samples", "", ("8 samples in run 1 and 16 in run 2",), id="last batch",
        ),
        pytest.param(
            (TORCH, *SINGLE), (TORCH + NO_DECAY, *SINGLE),
            1, "update", "norm.weight", ("weight_decay=0.01", "weight_decay=0.0"), id="decay",
        ),
        pytest.param(
            (TORCH, *SINGLE), (TORCH, *SINGLE), 0, "", "", ("No difference.",), id="the same",
        ),
        pytest.param(
            (TORCH, *SINGLE), (changed("torch.arange(88) % 3", "torch.arange(88) // 30"), *SINGLE),
            1, "samples", "", ("target",), id="targets",
        ),
        pytest.param(
            (TORCH, *SINGLE, {"seed": 1}), (TORCH, *SINGLE, {"seed": 2}),
            1, "samples", "", ("different samples", "weights", "first.weight"), id="seed",
        ),
        pytest.param(
            (TORCH, *SINGLE), (changed("return Net()", "torch.manual_seed(9); return Net()"),
            *SINGLE), 1, "weights", "first.weight", ("before the step",), id="initial weights",
        ),
        pytest.param(
            (TORCH, *SINGLE), (TORCH + DETACHED, *SINGLE),
            1, "gradient", "norm.bias", ("the loss is the same",), id="detached",
        ),
        pytest.param(
            (TORCH, *SINGLE), (TORCH + BETWEEN, *SINGLE),
            7, "between", "second.weight", ("in between",), id="between steps",
        ),
        pytest.param(
            (TORCH + RATE.replace("FACTOR", "1.0"), *SINGLE),
            (SYNC + RATE.replace("FACTOR", "1.1"), *DDP),
            10, "update", "first.weight", ("lr=0.01", "lr=0.011"), id="rate",
        ),
        pytest.param(
            (TORCH + DROPS_LAST.replace("LAST", "False"), *SINGLE),
            (SYNC + DROPS_LAST.replace("LAST", "True"), *DDP),
            6, "samples", "", ("8 samples in run 1 and 16 in run 2",), id="last batch of ranks",
        ),
        pytest.param(
            (KERAS_SAME, "tf/single", 1, {"optimizer": "sgd"}),
            (TORCH_SAME, *SINGLE, {"optimizer": "sgd"}),
            1, "layer", "conv2d", ("0 (Conv2d) in run 2",), id="same with stride 2",
        ),
        pytest.param(
            (KERAS_SAME, "tf/single", 1, {"optimizer": "sgd"}),
            (PADDED_BY_HAND, *SINGLE, {"optimizer": "sgd"}),
            0, "rounding", "", ("No difference beyond rounding",), id="keras and torch",
        ),
        pytest.param(
            (KERAS, "tf/single", 1), (KERAS, "tf/mirrored", 2),
            1, "layer", "norm", ("own replica",), id="local norm of mirrored",
        ),
        pytest.param(
            (KERAS_SAME, "tf/single", 1), (KERAS_SAME, "tf/mirrored", 2),
            0, "rounding", "", ("No difference beyond rounding",), id="twins of mirrored",
        ),
        pytest.param(
            (TORCH_SAME, *SINGLE), (TORCH_SAME, "torch/pipeline", 2),
            0, "rounding", "", ("No difference beyond rounding",), id="twins of a pipeline",
        ),
        pytest.param(
            (KERAS, "torch/keras_ddp", 1), (KERAS, "tf/single", 1),
            0, "rounding", "", (), id="keras",
        ),
        pytest.param(
            (KERAS, "torch/keras_ddp", 1), (KERAS_EPSILON, "tf/single", 1),
            1, "layer", "norm", (), id="keras epsilon",
        ),
        pytest.param(
            (KERAS, "tf/single", 1), (KERAS_EPSILON, "tf/single", 1),
            1, "layer", "norm", ("epsilon=0.1",), id="tensorflow epsilon",
        ),
    ],
)  # fmt: skip
def test_a_planted_fault_is_named(
    tmp_path: Path,
    one: tuple[Any, ...],
    other: tuple[Any, ...],
    step: int,
    cause: str,
    name: str,
    phrases: tuple[str, ...],
) -> None:
    found = compared(tmp_path, one, other)
    assert (found.step, found.cause, found.name.rpartition("/")[2]) == (step, cause, name)
    assert all(phrase in found.answer for phrase in phrases)


@pytest.fixture
def recorded(traindeck_home: Path) -> Iterator[list[RecordedRun]]:
    runs = [RecordedRun(), RecordedRun()]
    for run in runs:
        run.begin()
    yield runs
    for run in runs:
        run.store.close()


def test_equal_curves_need_no_replay(recorded: list[RecordedRun]) -> None:
    for run, steps in zip(recorded, (20, 30), strict=True):
        run.add_points("train/loss", range(1, steps + 1))
        run.add_points("train/accuracy", range(1, steps + 1), math.nan)
        run.add_points(THROUGHPUT, range(1, steps + 1), float(steps))
    found = diverge(*(run.id for run in recorded))
    assert (found.answer, found.steps, found.equal, found.step) == ("No difference.", 20, 20, 0)
    assert "run 2 30" in found.curves
    assert not found.settings


def test_a_difference_in_evaluations_alone_is_named(recorded: list[RecordedRun]) -> None:
    for run, value in zip(recorded, (0.5, 0.6), strict=True):
        run.add_points("train/loss", range(1, 21))
        run.add_points("val/loss", [10, 20], value)
    found = diverge(*(run.id for run in recorded))
    assert (found.step, found.equal) == (0, 20)
    assert "val/loss" in found.answer


def test_runs_without_a_replay_are_compared_by_their_curves(traindeck_home: Path) -> None:
    given = {name: getattr(SPEC, name) for name in ("recipe", "devices")}
    runs = [RecordedRun(RunSpec(**given, imported_from="/log", strategy="imported")) for _ in "ab"]
    for run, value in zip(runs, (0.5, 0.6), strict=True):
        with closing(run.store):
            run.begin()
            run.add_points("train/loss", range(1, 11))
            run.add_points("train/loss", range(11, 21), value)
    found = diverge(*(run.id for run in runs))
    assert (found.step, found.equal) == (11, 10)
    assert "imported" in found.answer


def test_a_run_without_steps_is_refused_by_its_number(recorded: list[RecordedRun]) -> None:
    recorded[0].add_points("train/loss", range(1, 21))
    with pytest.raises(CannotReplay, match=f"Run {recorded[1].id} "):
        diverge(*(run.id for run in recorded))


def test_rounding_adds_up_to_a_limit() -> None:
    assert rounding_at(1e-5, 1) == 1e-5
    assert rounding_at(1e-5, 10) == pytest.approx(1e-4)
    assert rounding_at(1e-5, 10**6) == 0.05
