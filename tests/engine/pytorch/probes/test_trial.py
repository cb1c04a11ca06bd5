"""What the trial of the first batch says, refuses and leaves unchanged."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from engine.pytorch.parallel import Objective, Rank, WholeModel
from engine.pytorch.precision import Precision
from engine.pytorch.probes.trial import Trial, check_shared_tensors
from engine.pytorch.process_group import SingleProcess
from engine.pytorch.recipe import defaults
from engine.pytorch.recipe.torch_recipe import Turn
from engine.pytorch.samples.batch_sharder import LocalBatch
from engine.spec.run_spec import RunSpec
from engine.training.errors import TrainingFailed
from tests.support.sentences import sentence

CPU = torch.device("cpu")
INPUTS = torch.randn(7, 3, generator=torch.Generator().manual_seed(0))
TARGETS = torch.tensor([0, 1, 2, -100, -100, 1, -100])


class Tried:
    """The trial of a small model whose batch is computed in two parts."""

    def __init__(self, loss: Any = defaults.loss, weight: Any = None, accumulation: int = 2):
        spec = RunSpec(
            recipe="r", strategy="torch/single", devices=("cpu:0",), accumulation=accumulation
        )
        rank = Rank(0, 1, (CPU,), SingleProcess(), spec)
        torch.manual_seed(0)  # by chance, the parts of a batch could have the same loss
        self.module = nn.Sequential(
            nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3)
        )
        self.parallel = WholeModel(self.module, rank)
        self.parallel.train()
        self.said: list[str] = []
        objective = Objective(loss, lambda o, t: {"never": math.nan}, Precision("fp32", "cpu"))
        self.trial = Trial(self.parallel, objective, rank, weight, self.said.append)

    def loss(self, batch: Any) -> list[str]:
        self.trial.loss(local(batch), Turn())
        return self.said


def local(batch: Any) -> LocalBatch:
    return LocalBatch(batch, 7, 7, 7.0)


def cross_entropy(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(outputs, targets)


@pytest.mark.parametrize("targets", [TARGETS.clamp(min=0), INPUTS])
def test_nothing_is_said_about_a_mean_over_samples(targets: torch.Tensor) -> None:
    assert Tried().loss((INPUTS, targets)) == []


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_a_sum_is_refused_and_a_mean_is_not(reduction: str) -> None:
    tried = Tried(lambda o, t: nn.functional.mse_loss(o, t, reduction=reduction))
    if reduction == "mean":
        assert tried.loss((INPUTS, INPUTS)) == []
        return
    with pytest.raises(TrainingFailed, match=sentence("sum-of-losses-of-halves").pattern):
        tried.loss((INPUTS, INPUTS))


def test_a_mean_over_something_else_needs_its_weight() -> None:
    [said] = Tried(cross_entropy).loss((INPUTS, TARGETS))
    assert "define weight(batch)" in said
    assert Tried(cross_entropy, lambda b: float((b[1] >= 0).sum())).loss((INPUTS, TARGETS)) == []
    [said] = Tried(cross_entropy, lambda b: float(len(b[1]))).loss((INPUTS, TARGETS))
    assert "Does weight(batch) return" in said


def test_nothing_is_said_about_a_loss_with_random_numbers() -> None:
    def loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return nn.functional.mse_loss(outputs, torch.randn_like(outputs))

    assert Tried(loss).loss((INPUTS, TARGETS)) == []


def test_one_part_is_not_divided() -> None:
    assert Tried(lambda o, t: o.sum(), accumulation=1).loss((INPUTS, TARGETS)) == []


def fails_for_few(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    if len(outputs) < 7:
        raise ValueError("this batch is too small")
    return outputs.sum()


@pytest.mark.parametrize(
    ("loss", "batch"),
    [
        (fails_for_few, (INPUTS, TARGETS)),
        (lambda o, t: o.sum() * math.nan, (INPUTS, TARGETS)),
        (lambda o, t: o.sum(), (INPUTS, torch.zeros(3))),
    ],
    ids=["it fails", "not finite", "rows that do not fit"],
)
def test_what_cannot_be_tried_is_left_to_the_training(loss: Any, batch: Any) -> None:
    assert Tried(loss).loss(batch) == []


def test_nothing_is_changed() -> None:
    def loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        np.random.rand()
        return outputs.mean() + 0 * torch.rand(())

    tried = Tried(loss)
    before = {name: value.clone() for name, value in tried.module.state_dict().items()}
    random = torch.get_rng_state(), np.random.get_state()[1].copy()  # type: ignore[index]
    tried.loss((INPUTS, TARGETS))
    assert tried.module.training
    assert all(torch.equal(before[n], v) for n, v in tried.module.state_dict().items())
    assert torch.equal(torch.get_rng_state(), random[0])
    assert (np.random.get_state()[1] == random[1]).all()  # type: ignore[index]
    assert all(parameter.grad is None for parameter in tried.module.parameters())


def test_a_forward_pass_that_changes_a_buffer_is_undone() -> None:
    tried = Tried()
    tried.module.register_buffer("calls", torch.zeros(()))
    counted: Callable[..., Any] = lambda module, inputs: module.calls.add_(1)  # noqa: E731
    tried.module.register_forward_pre_hook(counted)
    tried.loss((INPUTS, TARGETS.clamp(min=0)))
    assert float(tried.module.calls) == 0  # type: ignore[arg-type]


def test_inputs_that_are_not_finite_are_named() -> None:
    inputs = INPUTS.clone()
    inputs[4, 1] = math.inf
    tried = Tried()
    tried.trial.inputs(local((INPUTS, TARGETS)))
    assert tried.said == []
    tried.trial.inputs(local((inputs, TARGETS)))
    assert "hold NaN or infinity" in tried.said[0]
    assert "batch[0]" in tried.said[0]


def test_parameters_without_a_gradient_are_named() -> None:
    tried = Tried()
    tried.module[0].requires_grad_(False)
    tried.module[3](torch.ones(1, 8)).sum().backward()
    tried.trial.gradients("", list(tried.module.parameters()))
    assert tried.said[0].startswith(sentence("got-no-gradient-loss"))
    tried.trial.gradients("", list(tried.module[3].parameters()))
    assert len(tried.said) == 1


class Twice(nn.Module):
    """Two layers with one weight, or with two in one memory."""

    def __init__(self, tied: bool) -> None:
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(3, 3, bias=False) for _ in range(3))
        if tied:
            self.b.weight = self.a.weight
        else:
            self.b.weight.data = self.a.weight.data


def test_tied_weights_are_said_and_shared_memory_is_refused_where_it_would_be_lost() -> None:
    assert check_shared_tensors(nn.Linear(3, 3), "torch/fsdp", [CPU]) == ""
    assert sentence("are-one-parameter") in check_shared_tensors(
        Twice(tied=True), "torch/fsdp", [CPU]
    )
    frozen = Twice(tied=True).requires_grad_(False)
    assert check_shared_tensors(frozen, "torch/fsdp", [CPU]) == "", "it is not trained"
    assert check_shared_tensors(Twice(tied=False), "torch/ddp", [CPU]) == ""
    for strategy, device in (("torch/fsdp", "cpu"), ("torch/single", "cuda")):
        with pytest.raises(TrainingFailed, match=sentence("are-different-parameters").pattern):
            check_shared_tensors(Twice(tied=False), strategy, [torch.device(device)])


def test_a_variable_that_a_keras_model_lists_twice_is_not_tied() -> None:
    inner, outer = nn.Module(), nn.Module()
    variables = {"dense/kernel": nn.Parameter(torch.ones(2))}
    inner._torch_params = nn.ParameterDict(variables)
    outer._functional = inner
    outer._torch_params = nn.ParameterDict(variables)
    assert len(list(outer.named_parameters(remove_duplicate=False))) == 2
    assert check_shared_tensors(outer, "torch/keras_ddp", [CPU]) == ""
