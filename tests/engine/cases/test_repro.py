"""Real runs fail, and the repro.py of their failure files fails alike, without Traindeck."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from engine import client
from engine.cases.case_file import MOST_BYTES, NAME
from engine.messages import commands
from engine.messages.events import Trouble
from engine.spec.run_spec import RunSpec
from engine.training.sample_order import epoch_order
from tests.support.runs import RunInfo, train, wait_for_end, wait_for_event, wait_until_gone

pytestmark = pytest.mark.usefixtures("processes")

BARE = """
import importlib.abc, runpy, sys

class Without(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in {ours}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Without())
sys.path[0] = {folder!r}
runpy.run_path({script!r}, run_name="__main__")
"""
OURS = ("engine", "gui", "resources", "traindeck", "main", "msgspec", "safetensors", "PySide6")

MODEL = """
import torch
from torch import nn
from torch.utils.data import Dataset, TensorDataset

def model(width: int = 8):
    return nn.Sequential(nn.Linear(4, width), nn.Dropout(0.1), nn.ReLU(), nn.Linear(width, 3))

def columns():
    torch.manual_seed(1)
    return torch.randn(200, 4), torch.randint(0, 3, (200,))
"""
BAD_LABEL = """
def datasets():
    inputs, targets = columns()
    targets[77] = 9
    return TensorDataset(inputs, targets), None
"""
BAD_INPUT = """
def datasets():
    inputs, targets = columns()
    inputs[77, 2] = float("inf")
    return TensorDataset(inputs, targets), None
"""
DIVERGES = """
def model():
    return nn.Linear(4, 1)

def optimizer(parameters, learning_rate):
    return torch.optim.SGD(parameters, learning_rate)

def datasets():
    inputs, _ = columns()
    return TensorDataset(inputs, 3 * inputs.sum(1, keepdim=True)), None
"""
WRONG_SHAPE = """
def step(model, batch):
    inputs, rows = batch
    if {index} in rows.tolist():
        inputs = inputs[:, :3]
    return model(inputs).square().mean()

def datasets():
    return TensorDataset(columns()[0], torch.arange(200)), None
"""
MEMORY = """
def loss(outputs, targets):
    if len(outputs) > 15:
        outputs = outputs + outputs.repeat(10**10, 1)[: len(outputs)]
    return nn.functional.cross_entropy(outputs, targets)

def datasets():
    return TensorDataset(*columns()), None
"""
SAMPLES = """
class Samples(Dataset):
    def __len__(self):
        return 200

    def __getitem__(self, index):
        if index == 77:
            {does}
        return torch.full((4,), float(index % 7)), index % 3

def datasets():
    return Samples(), None
"""

KERAS = """
import keras
import numpy as np

def model(width: int = 8):
    layers = keras.layers
    return keras.Sequential(
        [keras.Input((4,)), layers.Dense(width), layers.Dropout(0.1), layers.Dense(3)]
    )

def datasets():
    draw = np.random.default_rng(0)
    inputs, targets = draw.normal(size=(200, 4)).astype("float32"), draw.integers(0, 3, 200)
    {damage}
    return (inputs, targets), None
"""


def failed(folder: Path, recipe: str, strategy: str = "torch/single", ranks: int = 1, **spec):
    """Train a recipe until the run fails, and return it."""
    return train(spec_of(folder, recipe, strategy, ranks, **spec))


def spec_of(folder: Path, recipe: str, strategy: str, ranks: int = 1, **spec) -> RunSpec:
    file = folder / "mine.py"
    file.write_text(recipe)
    devices = tuple(f"cpu:{rank}" for rank in range(ranks))
    fields = {"batch_size": 20, "epochs": 1, "learning_rate": 0.1} | spec
    return RunSpec(recipe=str(file), strategy=strategy, devices=devices, **fields)


def repro(info: RunInfo, folder: Path, **variables: str) -> tuple[int, str, dict]:
    """Run the repro.py of a run without Traindeck; return exit code, output and step."""
    wait_until_gone(info)
    case = info.folder / NAME
    assert case.stat().st_size < MOST_BYTES
    place = folder / "elsewhere"
    with zipfile.ZipFile(case) as content:
        content.extractall(place)
    (folder / "mine.py").unlink(missing_ok=True)
    script = place / "repro" / "repro.py"
    program = BARE.format(ours=OURS, folder=str(script.parent), script=str(script))
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=kept | {"OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"} | variables,
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
    )
    step = json.loads((place / "repro" / "step.json").read_text())
    return done.returncode, done.stdout, step


def test_a_bad_sample_is_found_by_halving_and_fails_alone(tmp_path):
    info = failed(tmp_path, MODEL + BAD_LABEL, settings={"width": 5})
    code, output, step = repro(info, tmp_path)
    assert code == 1, output
    assert "IndexError: Target 9 is out of bounds." in output
    assert (step["samples"], step["rows"], step["rows_before"]) == (["sample 77"], 1, 20)
    assert step["has_weights"]


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("recipe", "rate", "sample"), [(BAD_INPUT, 0.1, "sample 77"), (DIVERGES, 3.0, "")]
)
def test_a_loss_that_is_not_finite_is_not_finite_again(recipe, rate, sample, tmp_path):
    info = failed(tmp_path, MODEL + recipe, learning_rate=rate, epochs=5, on_nan="stop")
    code, output, step = repro(info, tmp_path)
    assert code == 1, output
    assert (step["kind"], step["repeats"]) == ("not finite", True)
    assert not sample or step["samples"] == [sample]


@pytest.mark.nightly
def test_a_wrong_shape_on_rank_1_fails_on_one_process(tmp_path):
    index = int(epoch_order(200, 0, 0)[31])  # of the second batch, on rank 1 of 2
    recipe = MODEL + WRONG_SHAPE.format(index=index)
    info = failed(tmp_path, recipe, "torch/ddp", ranks=2)
    assert info.status.failure_rank == 1
    code, output, step = repro(info, tmp_path)
    assert code == 1, output
    assert "shapes cannot be multiplied (10x3 and 4x8)" in output
    assert (step["rank"], step["rows"], step["step"]) == (1, 10, 2)


@pytest.mark.nightly
def test_a_lack_of_memory_is_repeated_by_its_sizes_alone(tmp_path):
    info = failed(tmp_path, MODEL + MEMORY)
    code, output, step = repro(info, tmp_path)
    assert code == 1, output
    assert step["kind"] == "memory"
    assert [each["shape"] for each in step["tree"]["tuple"]] == [[20, 4], [20]]
    assert not (tmp_path / "elsewhere" / "repro" / "batch.safetensors").read_bytes()[8:10] > b"{}"


@pytest.mark.nightly
@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_that_hangs_hangs_at_the_same_sample(workers, tmp_path):
    recipe = MODEL + SAMPLES.format(does="import time; time.sleep(3600)")
    spec = spec_of(tmp_path, recipe, "torch/single", hang_minutes=0.05, loader_workers=workers)
    run = client.start(spec)
    wait_for_event(run, Trouble)
    client.send(run, commands.Stop(now=True))
    info = wait_for_end(run)
    code, output, step = repro(info, tmp_path)
    assert code == 1, output
    assert (step["kind"], step["reading"], step["step"]) == ("hang", [77], step["batch"] + 1)
    assert "sample 77 was not read" in output


@pytest.mark.nightly
@pytest.mark.parametrize("workers", [0, 1])
def test_a_sample_that_cannot_be_read_fails_alike_or_needs_the_data(workers, tmp_path):
    recipe = MODEL + SAMPLES.format(does='raise ValueError("broken")')
    data = tmp_path / "data.txt"
    data.write_text("there")
    reads = f"def datasets():\n    open({str(data)!r}).close()\n"
    recipe = recipe.replace("def datasets():\n", reads)
    info = failed(tmp_path, recipe, loader_workers=workers)
    code, output, step = repro(info, tmp_path)
    assert code == 1, output
    assert (step["kind"], step["index"], step["error"]) == ("sample", 77, "ValueError")
    data.unlink()
    code, output, _ = repro(info, tmp_path)
    assert code == 2, output
    assert "needs the data" in output


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("strategy", "damage", "on_nan", "kind"),
    [
        ("tf/single", "targets[77] = 9", "continue", "error"),
        ("tf/single", "inputs[77, 1] = np.nan", "stop", "not finite"),
        ("torch/keras_ddp", "targets[77] = 9", "continue", "error"),
    ],
)
def test_a_keras_recipe_fails_alike_with_keras_alone(strategy, damage, on_nan, kind, tmp_path):
    recipe = KERAS.format(damage=damage)
    info = failed(tmp_path, recipe, strategy, on_nan=on_nan, settings={"width": 5})
    code, output, step = repro(info, tmp_path)
    assert code == 1, output
    assert (step["kind"], step["samples"]) == (kind, ["sample 77"])
    assert step["has_weights"]
