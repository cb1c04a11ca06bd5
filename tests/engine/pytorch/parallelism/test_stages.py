"""Cutting models into stages, and keeping one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from engine.pytorch.parallelism.stages import cut_model, keep_only
from engine.spec.recipe_file import read_recipe
from engine.training.stage_partition import CannotPartition
from tests.recipes import probe_stages
from tests.support.sentences import sentence


def linears(*sizes: int) -> nn.Sequential:
    """A chain with one layer for each number of parameters."""
    return nn.Sequential(*(nn.Linear(size, 1, bias=False) for size in sizes))


def lengths(stages: Sequence[nn.Module]) -> list[int]:
    return [len(list(stage.children())) for stage in stages]


def names(module: nn.Module) -> list[str]:
    return list(module.state_dict())


@pytest.mark.parametrize(
    ("sizes", "count", "expected"),
    [
        ((4, 4, 4, 4), 2, [2, 2]),
        ((9, 1, 1, 1), 2, [1, 3]),
        ((1, 1, 1, 9), 2, [3, 1]),
        ((5, 1, 5, 1, 5), 3, [1, 2, 2]),
        ((1, 2, 3), 3, [1, 1, 1]),
        (range(1, 200), 4, [98, 42, 32, 27]),
    ],
)
def test_the_largest_stage_is_as_small_as_possible(
    sizes: Sequence[int], count: int, expected: list[int]
) -> None:
    assert lengths(cut_model(linears(*sizes), count, None)) == expected


def test_layers_keep_names_and_go_with_the_parameters_before_them() -> None:
    model = nn.Sequential(
        nn.Flatten(),
        nn.Linear(4, 3),
        nn.ReLU(inplace=True),
        nn.Dropout(),
        nn.Linear(3, 3),
        nn.Tanh(),
    )
    first, second = cut_model(model, 2, None)
    assert [name for name, _ in first.named_children()] == ["0", "1", "2", "3"]
    assert names(second) == ["4.weight", "4.bias"]
    inputs = torch.randn(5, 4)
    model.eval(), first.eval()
    assert torch.equal(second(first(inputs)), model(inputs))


def test_sequentials_in_sequentials_are_one_chain() -> None:
    model = nn.Sequential()
    model.add_module("body", nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2)))
    model.add_module("head", nn.Linear(2, 2))
    cut = cut_model(nn.Sequential(model), 3, None)
    assert [names(stage)[0] for stage in cut] == [
        "0.body.0.weight",
        "0.body.2.weight",
        "0.head.weight",
    ]
    inputs = torch.randn(5, 2)
    assert torch.equal(nn.Sequential(*cut)(inputs), model(inputs))


def test_one_stage_is_the_model_of_any_kind() -> None:
    model = nn.Bilinear(2, 2, 2)
    assert cut_model(model, 1, None) == [model]


def test_frozen_layers_alone_are_not_a_stage() -> None:
    model = linears(4, 4, 4)
    model[0].requires_grad_(False)
    assert lengths(cut_model(model, 2, None)) == [2, 1]
    with pytest.raises(CannotPartition, match=r"only 2 of its layers .* Choose 2 devices or fewer"):
        cut_model(model, 3, None)


class OwnForward(nn.Sequential):
    """A Sequential that does more than a chain."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs + super().forward(inputs)


@pytest.mark.parametrize("model", [nn.Bilinear(2, 2, 2), OwnForward(nn.Linear(1, 1))])
def test_a_model_that_is_not_a_sequential_needs_stages(model: nn.Module) -> None:
    with pytest.raises(
        CannotPartition, match=sentence("define-stages-model-count-in-recipe").pattern
    ):
        cut_model(model, 2, None)


def test_tied_weights_are_refused() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2), nn.Linear(2, 2))
    model[3].weight = model[0].weight
    with pytest.raises(CannotPartition, match=r"Stages 0 and 1 .* share 0\.weight"):
        cut_model(model, 2, None)


@pytest.mark.parametrize(
    ("cut", "said"),
    [
        (lambda model, count: None, sentence("must-return-list-of-modules").pattern),
        (lambda model, count: [model], sentence("must-return-list-of-modules").pattern),
        (
            lambda model, count: [model[0], torch.tanh],
            sentence("must-return-list-of-modules").pattern,
        ),
        (
            lambda model, count: [model[0], model[1]],
            sentence("no-stage-of-model-holds-weight").pattern,
        ),
        (lambda model, count: [model, model[2]], sentence("stages-of-model-share-weight").pattern),
        (
            lambda model, count: [model, nn.Tanh()],
            sentence("stage-of-model-has-no-trainable").pattern,
        ),
        (
            lambda model, count: [model, nn.Linear(1, 1)],
            sentence("weight-which-is-not-in-model").pattern,
        ),
    ],
)
def test_stages_of_a_recipe_must_be_the_model(cut: Any, said: str) -> None:
    with pytest.raises(CannotPartition, match=said):
        cut_model(linears(1, 1, 1), 2, cut)


@pytest.mark.parametrize("count", [2, 3])
def test_stages_of_a_recipe(count: int) -> None:
    model = probe_stages.model()
    cut = cut_model(model, count, probe_stages.stages)
    images = torch.randn(5, 8, 8)
    assert len(cut) == count
    assert torch.equal(nn.Sequential(*cut)(images), model(images))
    assert read_recipe(Path(probe_stages.__file__)).can_be_partitioned


def test_only_one_stage_is_kept_under_its_names_in_the_model() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Linear(2, 2), nn.BatchNorm1d(2))
    everything = names(model)
    stage = cut_model(model, 4, None)[3]
    keep_only(model, stage)
    assert names(model) == [name for name in everything if name.startswith("3.")]
    assert [name for name, _ in model.named_parameters()] == ["3.weight", "3.bias"]
    assert model[3].weight is dict(stage.named_parameters())["3.weight"]
    assert stage(torch.randn(4, 2)).shape == (4, 2)
