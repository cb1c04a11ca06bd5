"""Which sample and which layer made a step: planted faults in real steps, and what is seen."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from engine import client
from engine.planning.replays.inspection import StepContext, read_inspection
from engine.planning.replays.replay import replay
from engine.planning.results import Inspection
from engine.training.probes.step_inspection import (
    Inputs,
    LayerFigures,
    ParameterFigures,
    RankInspection,
    SampleFigures,
    write_inspection,
)
from tests.support.runs import spec, wait_for_end

BAD = 37

TORCH = """
import torch
from torch import nn
from torch.utils.data import TensorDataset

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.drop = nn.Dropout(0.2)
        self.second = nn.Linear(144, 3)

    def forward(self, images):
        return self.second(self.drop(torch.relu(self.norm(self.first(images)))).flatten(1))

def model(): return Net()

def datasets(fault=""):
    torch.manual_seed(3)
    images, classes = torch.rand(96, 1, 8, 8), torch.arange(96) % 3
    if fault == "input": images[37, 0, 2, 2] = float("inf")
    if fault == "size": images[37] *= 3000
    return TensorDataset(images, classes), None
"""
STAGES = """
def stages(model, count):
    parts = [[model.first, model.norm, model.drop], [nn.Flatten(), model.second]]
    return [nn.Sequential(*part) for part in parts][:count]
"""
STEP = """
def step(model, batch):
    images, classes = batch
    return nn.functional.cross_entropy(model(images), classes)
"""
PER_SAMPLE = """
def sample_loss(outputs, targets):
    return nn.functional.cross_entropy(outputs, targets, reduction="none")
"""
PER_SAMPLE_OF_STEP = """
def sample_loss(model, batch):
    images, classes = batch
    return nn.functional.cross_entropy(model(images), classes, reduction="none")
"""
MEAN = """
def sample_loss(outputs, targets):
    return nn.functional.cross_entropy(outputs, targets)
"""
KERAS_PER_SAMPLE = """
def sample_loss(outputs, targets):
    return keras.losses.sparse_categorical_crossentropy(targets, outputs, from_logits=True)
"""
KERAS = """
import keras, numpy as np

def model():
    layers = keras.layers
    return keras.Sequential([
        keras.Input((8, 8, 1)), layers.Conv2D(4, 3, name="first"), layers.BatchNormalization(),
        layers.Dropout(0.2), layers.Flatten(), layers.Dense(3, name="second"),
    ])

def datasets(fault=""):
    images = np.random.default_rng(3).random((96, 8, 8, 1), "float32")
    if fault == "input": images[37, 2, 2, 0] = np.inf
    return (images, np.arange(96) % 3), None
"""
STREAM = """
import tensorflow as tf
in_arrays = datasets

def datasets(fault=""):
    train, _ = in_arrays(fault)
    return tf.data.Dataset.from_tensor_slices(train).batch(16), None
"""


def inspected(
    folder: Path, text: str, fault: str, strategy: str = "torch/single", ranks: int = 1
) -> tuple[Inspection, int]:
    """Train two epochs with a fault, replay the epoch's step that has it; return that step."""
    recipe = folder / "faulty.py"
    recipe.write_text(text)
    run = client.start(
        spec(
            str(recipe),
            strategy,
            ranks,
            batch_size=16,
            steps=12,
            checkpoint_steps=5,
            on_nan="continue",
            settings={"fault": fault},
        )
    )
    wait_for_end(run)
    found = replay(run, 0 if fault == "input" else 12)
    assert found.difference is None
    assert found.inspection is not None
    return found.inspection, found.step


def note(folder: Path, context: StepContext | None = None, **given: Any) -> str:
    """Return the answer for what one rank saw."""
    write_inspection(folder, RankInspection(rank=0, **given))
    found = read_inspection(folder, context or StepContext())
    assert found is not None
    return found.answer


def layer(name: str, not_finite: float = 0.0, *, has_finite_inputs: bool = True) -> LayerFigures:
    return LayerFigures(
        name=name,
        kind="Linear",
        mean=0.0,
        smallest=-1.0,
        largest=1.0,
        not_finite=not_finite,
        has_finite_inputs=has_finite_inputs,
    )


def parameter(name: str, gradient: float = 1.0, weight: float = 1.0) -> ParameterFigures:
    return ParameterFigures(
        name=name, weight_norm=weight, gradient_norm=gradient, update_norm=0.1, is_part=True
    )


def sample(number: int, loss: float, largest: float = 1.0) -> SampleFigures:
    inputs = Inputs(smallest=0.0, largest=largest)
    return SampleFigures(name=f"sample {number}", rank=0, loss=loss, inputs=inputs)


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    ("more", "hook"),
    [
        ("", PER_SAMPLE),
        (STEP, PER_SAMPLE_OF_STEP),
        ("", MEAN),
        pytest.param(STEP, "", marks=pytest.mark.nightly),
    ],
)
def test_a_planted_infinity_is_found_with_its_sample_and_layer(
    tmp_path: Path, more: str, hook: str
) -> None:
    found, _ = inspected(tmp_path, TORCH + more + hook, "input")
    assert sum("sample_loss" in note for note in found.notes) == bool(hook)
    assert any(f"{(16,)}" in note for note in found.notes) == (hook == MEAN), "it is refused"
    worst = found.samples[0]
    assert (worst.name, worst.inputs.not_finite) == (f"sample {BAD}", 1)
    assert f"ample {BAD}" in found.answer
    assert "first (Conv2d)" in found.answer
    assert worst.inputs.picture is not None or more  # a step may have its inputs anywhere
    assert len(found.samples) == found.samples_in_all == 16
    healthy = [each for each in found.samples[1:] if each.gradient_norm is not None]
    assert healthy
    assert all(math.isfinite(each.gradient_norm or 0.0) for each in healthy)
    assert {each.name for each in found.parameters} >= {"first.weight", "second.bias"}


@pytest.mark.nightly
@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    ("strategy", "text"),
    [
        ("torch/ddp", TORCH),
        ("torch/ddp", TORCH + STEP),
        ("torch/fsdp", TORCH + PER_SAMPLE),
        ("torch/pipeline", TORCH + STAGES + PER_SAMPLE),
        ("torch/keras_ddp", KERAS + KERAS_PER_SAMPLE),
        ("tf/mirrored", KERAS + KERAS_PER_SAMPLE),
        ("tf/mirrored_fit", KERAS),
        ("tf/central_storage", KERAS),
        ("tf/multi_worker", KERAS),
        ("tf/model_parallel", KERAS),
    ],
)
def test_each_strategy_names_the_sample_and_the_layer(
    tmp_path: Path, strategy: str, text: str
) -> None:
    found, _ = inspected(tmp_path, text, "input", strategy, 2)
    assert found.samples[0].name == f"sample {BAD}"
    assert "first" in found.answer
    assert any("sample_loss" in note for note in found.notes) == ("sample_loss" in text)
    assert found.samples_in_all == 16
    assert all(each.gradient_norm is not None for each in found.parameters)
    assert len({each.name for each in found.parameters}) == len(found.parameters) == 6


@pytest.mark.nightly
@pytest.mark.usefixtures("processes")
def test_batches_that_cannot_be_read_again_are_refused_by_name(tmp_path: Path) -> None:
    found, _ = inspected(tmp_path, KERAS + STREAM, "input", "tf/single")
    assert not found.samples
    assert any("own order" in note for note in found.notes)
    assert all(each.update_norm != 0 for each in found.parameters)


def test_a_sample_far_above_its_batch_is_named_with_its_odd_inputs(tmp_path: Path) -> None:
    samples = (sample(5, 40.0, 400.0), *(sample(n, 1.0 + n / 100) for n in range(15)))
    answer = note(tmp_path, samples=samples, parameters=(parameter("a", 3.0), parameter("b", 4.0)))
    assert "ample 5" in answer
    assert "400" in answer
    assert "64%" in answer  # of b, in the square of the norm


def test_a_layer_whose_outputs_are_all_0_is_named_with_what_learns_nothing(tmp_path: Path) -> None:
    dead = replace(layer("three"), kind="ReLU", smallest=0.0, largest=0.0)
    before = replace(layer("two"), largest=-0.5)
    after = layer("four")
    answer = note(
        tmp_path,
        samples=tuple(sample(n, 2.3) for n in range(8)),
        layers=(layer("one"), before, dead, after),
        parameters=(
            parameter("one.weight", 0.0),
            parameter("two.bias", 0.0),
            parameter("four.bias"),
        ),
    )
    assert "three (ReLU)" in answer
    assert "one.weight, two.bias" in answer


def test_layers_after_one_without_outputs_are_not_blamed(tmp_path: Path) -> None:
    first = replace(layer("one"), smallest=0.0, largest=0.0)
    answer = note(tmp_path, samples=(sample(1, 2.3),), layers=(first, layer("two")))
    assert "one" not in answer.split()


def test_no_sample_is_blamed_where_all_are_alike(tmp_path: Path) -> None:
    answer = note(tmp_path, samples=tuple(sample(n, 1.0 + n / 10) for n in range(8)))
    assert "no sample stands out" in answer


@pytest.mark.parametrize(
    ("given", "culprit"),
    [
        ({"parameters": (parameter("early", weight=math.nan),)}, "early"),
        ({"layers": (layer("one"), layer("two", 0.5), layer("three", 1.0))}, "two"),
        ({"layers": (layer("one"),), "parameters": (parameter("x", math.inf),)}, "x"),
        ({"samples": (sample(3, math.nan), sample(4, 1.0)), "layers": (layer("one"),)}, "ample 3"),
    ],
)
def test_the_earliest_cause_is_the_answer(
    tmp_path: Path, given: dict[str, Any], culprit: str
) -> None:
    assert culprit in note(tmp_path, **given)


def test_the_sample_whose_gradient_alone_is_not_finite_is_named(tmp_path: Path) -> None:
    culprit = replace(sample(9, 0.1), gradient_norm=math.inf)
    answer = note(
        tmp_path,
        samples=(culprit, replace(sample(4, 2.0), gradient_norm=1.0)),
        parameters=(parameter("early", math.inf), parameter("late", math.inf)),
    )
    assert "late" in answer
    assert "ample 9" in answer
    assert "sample 4" not in answer


def test_a_layer_names_the_samples_of_its_rows(tmp_path: Path) -> None:
    odd = replace(layer("log", 0.1), samples=("sample 333",))
    assert "sample 333" in note(tmp_path, layers=(odd,), samples=(sample(1, 1.0),))


@pytest.mark.parametrize("rate", [50.0, 0.05])
def test_an_update_as_large_as_the_weights_is_named_with_its_learning_rate(
    tmp_path: Path, rate: float
) -> None:
    context = StepContext(loss_before=1.0, rate=rate, rate_before=0.05)
    large = replace(parameter("w"), update_norm=5.0)
    answer = note(tmp_path, context, samples=(sample(1, 1.0),), parameters=(large,))
    assert "500%" in answer
    assert ("learning rate is 50" in answer) == (rate == 50.0)


def test_where_all_losses_are_large_the_step_before_is_to_blame(tmp_path: Path) -> None:
    samples = (*(sample(n, 1e4 + n) for n in range(7)), sample(8, 9e5))
    answer = note(tmp_path, StepContext(loss_before=1.0), samples=samples)
    assert "step before" in answer
    assert "ample 8" not in answer


def test_the_parts_of_a_parameter_on_several_ranks_are_one(tmp_path: Path) -> None:
    for rank, norm in enumerate((3.0, 4.0)):
        write_inspection(tmp_path, RankInspection(rank=rank, parameters=(parameter("w", norm),)))
    found = read_inspection(tmp_path, StepContext())
    assert found is not None
    [whole] = found.parameters
    assert whole.gradient_norm == pytest.approx(5.0)
