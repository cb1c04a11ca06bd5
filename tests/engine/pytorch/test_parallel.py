"""A rank with a whole model: what is called, and what the weights of a share do."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

from engine.pytorch.parallel import CUDA_GRAPHS, Objective, Rank, WholeModel, loss_of, scaled_values
from engine.pytorch.precision import Precision
from engine.pytorch.process_group import SingleProcess
from engine.pytorch.recipe import defaults
from engine.spec.run_spec import RunSpec

CPU = torch.device("cpu")
INPUTS, TARGETS = torch.randn(6, 3), torch.tensor([0, 1, 2, 0, 1, 2])


def objective() -> Objective:
    return Objective(defaults.loss, lambda outputs, targets: {}, Precision("fp32", "cpu"))


def whole_model(module: nn.Module, **changes: Any) -> WholeModel:
    spec = RunSpec(recipe="r", strategy="torch/single", devices=("cpu:0",), **changes)
    return WholeModel(module, Rank(0, 1, (CPU,), SingleProcess(), spec))


def test_gradients_of_weighted_shares_are_the_gradient_of_the_whole() -> None:
    module = nn.Linear(3, 3)
    parallel = whole_model(module)
    whole = loss_of(parallel.train_batch((INPUTS, TARGETS), 1.0, objective(), sync=True))
    expected = module.weight.grad
    module.zero_grad()
    parts = [
        loss_of(parallel.train_batch((INPUTS[rows], TARGETS[rows]), weight, objective(), sync=True))
        for rows, weight in ((slice(0, 4), 4 / 6), (slice(4, 6), 2 / 6), (slice(0, 1), 0.0))
    ]
    assert torch.allclose(sum(parts, torch.zeros(())), whole)
    assert expected is not None
    assert module.weight.grad is not None
    assert torch.allclose(module.weight.grad, expected)


def test_validation_leaves_no_gradients() -> None:
    module = nn.Linear(3, 3)
    figures = whole_model(module).validate_batch((INPUTS, TARGETS), objective())
    assert set(figures) == {"loss"}
    assert not loss_of(figures).requires_grad
    assert module.weight.grad is None


def test_values_that_a_cuda_graph_overwrites_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, CUDA_GRAPHS, ModuleType(CUDA_GRAPHS))
    given = torch.tensor(2.0, requires_grad=True).square()
    kept = scaled_values({"loss": given, "share": 0.5}, 1.0)
    given.detach().zero_()
    assert kept == {"loss": torch.tensor(4.0), "share": 0.5}
