"""Recipes with a step: the same curves, weights and averages under every strategy, and resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine import client
from engine.client import RunInfo
from engine.messages.events import EpochEnded, Notice, TrainingEnded
from engine.runs.run_state import RunState
from tests.support.contract import assert_alike, interrupted, last_checkpoint, validation, went_on
from tests.support.runs import curve, events, failure_of, spec, train
from tests.support.sentences import sentence
from tests.support.trained_runs import trained
from tests.support.weights import read_tensors

pytestmark = pytest.mark.usefixtures("processes")

OPTIONS: dict[str, Any] = {"batch_size": 8, "epochs": 4, "learning_rate": 0.02}
STRATEGIES = [
    ("torch/ddp", {"devices": 2}),
    ("torch/ddp", {"devices": 2, "accumulation": 3}),
    ("torch/fsdp", {"devices": 2}),
    ("torch/fsdp", {"devices": 2, "accumulation": 2}),
    ("torch/model_parallel", {}),
    ("torch/data_parallel", {}),
    ("torch/pipeline", {"devices": 2}),
]


def name_of(value: object) -> str:
    if isinstance(value, dict):
        return "-".join(f"{key}{number}" for key, number in value.items()) or "one"
    return str(value)


CURVES = {
    "probe_steps": ("train/loss", "train/right", "train/learning_rate"),
    "probe_gan": ("train/loss", "train/discriminator_loss", "train/discriminator_real"),
    "probe_carried": ("train/loss", "train/known"),
    "probe_weighted": ("train/loss", "train/learning_rate"),
}
NO_CHAIN = ("probe_gan", "probe_carried")
"""Models that are no chain of stages with one argument."""

ALSO = (("probe_steps", "torch/model_parallel"), ("probe_gan", "torch/ddp"))


def is_nightly(recipe: str, strategy: str, options: dict[str, Any]) -> bool:
    """Accumulation does all that the step without it does, and more."""
    is_spread = "accumulation" in options or strategy == "torch/pipeline"
    return not is_spread and (recipe, strategy) not in ALSO


@pytest.mark.parametrize(
    ("recipe", "strategy", "options"),
    [
        pytest.param(
            recipe,
            strategy,
            options,
            marks=[pytest.mark.nightly] if is_nightly(recipe, strategy, options) else [],
        )
        for recipe in CURVES
        for strategy, options in STRATEGIES
        if not (strategy == "torch/model_parallel" and recipe in NO_CHAIN)
        if strategy != "torch/pipeline" or recipe == "probe_weighted"
    ],
    ids=name_of,
)
def test_a_step_trains_alike_under_every_strategy(
    recipe: str, strategy: str, options: dict[str, Any]
) -> None:
    """Also with different weights of the local batches: mean over tokens, not over samples."""
    reference = trained(spec(recipe, "torch/single", **OPTIONS))
    assert_alike(trained(spec(recipe, strategy, **OPTIONS, **options)), reference, CURVES[recipe])


def test_a_step_of_a_keras_model_trains_alike_on_two_devices() -> None:
    alone, together = (
        trained(spec("probe_keras_step", "torch/keras_ddp", devices, **OPTIONS))
        for devices in (1, 2)
    )
    assert_alike(together, alone, ("train/loss", "train/right"))


@pytest.mark.parametrize(
    ("recipe", "strategy"),
    [
        pytest.param("probe_steps", "torch/single", marks=pytest.mark.nightly),
        ("probe_steps", "torch/fsdp"),
        ("probe_gan", "torch/ddp"),
        pytest.param("probe_carried", "torch/ddp", marks=pytest.mark.nightly),
    ],
)
def test_killed_and_resumed_equals_uninterrupted(recipe: str, strategy: str) -> None:
    """Weights, averages, schedulers, random draws; the killed run had done all steps, and from the
    eighth on, in the middle of an epoch, they are done again."""
    alone = strategy == "torch/single"
    often = {"epochs": 5, "checkpoint_steps": 4, "keep_checkpoints": 9}
    options = OPTIONS | often | {"devices": 1 if alone else 2, "settings": {"dropout": 0.2}}
    killed = interrupted(spec(recipe, strategy, **options))
    tolerance = 0.0 if alone else 1e-6
    assert_alike(went_on(killed, 8), killed, CURVES[recipe], tolerance=tolerance)


def test_validation_uses_the_averages_and_training_does_not() -> None:
    tensors = read_tensors(last_checkpoint(trained(spec("probe_steps", "torch/single", **OPTIONS))))
    own, average = tensors["model.body.0.weight"], tensors["average.body.0.weight"]
    assert abs(own - average).max() > 1e-4
    tied = ("model.embedding.weight", "model.head.weight")
    assert (tensors[tied[0]] == tensors[tied[1]]).all()


def test_a_recipe_ends_the_training_and_says_why() -> None:
    info = train(
        spec("probe_steps", "torch/ddp", 2, **OPTIONS | {"epochs": 9}, settings={"patience": 3})
    )
    assert info.state is RunState.FINISHED
    assert sentence("of-recipe-ended-training-after-epoch") in info.reason
    assert info.status.step == 15
    assert info.status.checkpoint_step == 15
    [ended] = [event for event in events(info) if isinstance(event, TrainingEnded)]
    assert ended.reason in info.reason


def test_a_run_of_steps_ends_within_an_epoch_validates_and_goes_on() -> None:
    wanted = spec("probe_gan", "torch/ddp", 2, **OPTIONS | {"epochs": 1}, steps=8)
    info = train(wanted)
    assert (info.state, info.reason) == (RunState.FINISHED, "All 8 steps are done.")
    assert curve(info, "train/loss")[0] == list(range(1, 9))
    ends = [event.step for event in events(info) if isinstance(event, EpochEnded)]
    assert ends == [5], "the second epoch has not ended"
    with pytest.raises(client.CannotStart, match="more than 8"):
        client.resume(info.id)


def test_a_step_with_several_arguments_is_refused_by_a_chain_of_stages() -> None:
    info = train(spec("probe_carried", "torch/model_parallel", **OPTIONS))
    assert sentence("calls-model-with-several-arguments") in failure_of(info).message
    assert not curve(info, "train/loss")[0]


def test_stages_refuse_a_step_before_anything_starts() -> None:
    path = Path(__file__).parents[2] / "recipes/probe_steps.py"
    with pytest.raises(client.CannotStart, match=r"step\(\) of probe_steps calls"):
        client.start(spec(str(path), "torch/pipeline", 2, **OPTIONS))


UNUSED = """
import torch
from torch import nn

class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.unused, self.last = nn.Linear(4, 8), nn.Linear(4, 4), nn.Linear(8, 1)
        self.norm = nn.BatchNorm1d(8)
        self.calls = 0
    def forward(self, x):
        self.calls += self.training
        hidden = self.norm(self.used(x)).tanh()
        return self.last(hidden + SOMETIMES * (self.calls == 1) * self.unused(x).mean())

def model():
    return Network()

def datasets():
    x = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
    y = x.sum(1, keepdim=True)
    return (x, y), (x[:8], y[:8])
"""


def notices(info: RunInfo) -> list[str]:
    return [event.text for event in events(info) if isinstance(event, Notice)]


def test_ddp_trains_a_model_with_unused_parameters_and_names_them(tmp_path: Path) -> None:
    """The first step counts once: BatchNorm has seen as many batches as there were steps.

    And a metric that some batches leave out is the mean over the others.
    """
    recipe = tmp_path / "unused.py"
    recipe.write_text(
        UNUSED.replace("SOMETIMES * (self.calls == 1) * self.unused(x).mean()", "0")
        + """
def validate(model, batch):
    x, y = batch
    return {"all": 1.0} | ({"last": float(len(x))} if bool((x == LAST).any()) else {})

LAST = datasets()[1][0][7, 0]  # rank 1 has it
"""
    )
    info = train(spec(str(recipe), "torch/ddp", 2))
    assert info.state is RunState.FINISHED, info.reason
    assert any("unused.weight, unused.bias got no gradient" in text for text in notices(info))
    tensors = read_tensors(last_checkpoint(info))
    assert tensors["model.norm.num_batches_tracked"] == info.status.step == 4
    assert validation(info) == {"validation/all": 1.0, "validation/last": 4.0}


def test_a_step_that_leaves_out_parameters_later_is_explained(tmp_path: Path) -> None:
    recipe = tmp_path / "sometimes.py"
    source = UNUSED.replace(
        "SOMETIMES * (self.calls == 1) * self.unused(x).mean()",
        "(self.unused(x).mean() if self.calls == 1 else 0)",
    )
    recipe.write_text(source)
    failure = failure_of(train(spec(str(recipe), "torch/ddp", 2)))
    assert sentence("got-no-gradient-in-step") in failure.message
    recipe.write_text(source + "\nFIND_UNUSED_PARAMETERS = True\n")
    info = train(spec(str(recipe), "torch/ddp", 2))
    assert info.state is RunState.FINISHED, info.reason


def test_what_cannot_be_saved_is_known_after_the_first_step(tmp_path: Path) -> None:
    recipe = tmp_path / "unsaved.py"
    recipe.write_text(
        UNUSED.replace("SOMETIMES * (self.calls == 1) * self.unused(x).mean()", "0")
        + """
class Odd(torch.optim.lr_scheduler.LambdaLR):
    def state_dict(self):
        return {"place": self}

def optimizer(parameters, learning_rate):
    made = torch.optim.SGD(parameters, learning_rate)
    return made, Odd(made, lambda epoch: 1.0)
"""
    )
    info = train(spec(str(recipe), "torch/ddp", 2))
    failure = failure_of(info)
    assert sentence("no-checkpoint-of-this-training") in failure.message
    assert info.status.step == 1


def test_inputs_that_are_not_finite_are_the_reason(tmp_path: Path) -> None:
    recipe = tmp_path / "broken.py"
    source = UNUSED.replace("SOMETIMES * (self.calls == 1) * self.unused(x).mean()", "0")
    recipe.write_text(source.replace("    y = x.sum", "    x[5] = float('nan')\n    y = x.sum"))
    failure = failure_of(train(spec(str(recipe), "torch/fsdp", 2, on_nan="stop")))
    assert sentence("data-hold-nan-or-infinity-sample") in failure.message
    assert "learning rate" not in failure.message
