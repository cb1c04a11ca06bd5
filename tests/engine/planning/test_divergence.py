"""Where two runs begin to differ: planted faults in real runs, and what is said of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine import client
from engine.planning.divergence import diverge
from engine.planning.results import Divergence
from engine.runs.run_state import RunState
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


def train(recipe: Path, text: str, strategy: str, devices: int, **settings: Any) -> str:
    """Train a recipe; return the id of its run."""
    recipe.write_text(text)
    given = {"batch_size": 16, "steps": 14, "learning_rate": 0.01, **settings}
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
SYNC = changed("nn.BatchNorm2d(4)", "Sync(4)") + SYNCHRONISED
SAME = TORCH + PADDED
SYMMETRIC = changed("stride=2", "stride=2, padding=1", changed("ZeroPad2d((0, 1, 0, 1))",
                    "Identity()", SAME))  # fmt: skip
KERAS_EPSILON = changed("Normalization(", "Normalization(epsilon=0.1, ", KERAS)


@pytest.mark.usefixtures("processes")
@pytest.mark.nightly
@pytest.mark.parametrize(
    ("one", "other", "step", "cause", "name", "phrases"),
    [
        pytest.param(
            (TORCH, *SINGLE), (EPSILON, *SINGLE),
            1, "layer", "norm", ("norm (BatchNorm2d)", "eps=0.001"), id="epsilon",
        ),
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
