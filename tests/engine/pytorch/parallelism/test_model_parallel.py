"""Stages on the devices of one process equal the model on one device."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from engine.pytorch.parallel import Objective, Parallel, Rank, loss_of
from engine.pytorch.precision import Precision
from engine.pytorch.process_group import SingleProcess
from engine.pytorch.recipe.defaults import loss
from engine.pytorch.strategies.model_parallel import strategy
from engine.spec.run_spec import RunSpec
from tests.recipes import probe_stages, probe_torch
from tests.support.torch_recipes import recipe_of

MODELS: dict[str, Callable[[], nn.Module]] = {
    "sequential": probe_torch.model,
    "stages": probe_stages.model,
}


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> nn.Module:
    torch.manual_seed(0)
    return MODELS[request.param]()


@pytest.fixture
def wrap_model(model: nn.Module) -> Callable[..., Parallel]:
    cut = probe_stages.stages if isinstance(model, probe_stages.Network) else None

    def arranged(count: int, **options: Any) -> Parallel:
        spec = RunSpec(recipe="", strategy=strategy.name, devices=("cpu:0",) * count, **options)
        rank = Rank(0, 1, (torch.device("cpu"),) * count, SingleProcess(), spec)
        return strategy.wrap_model(copy.deepcopy(model), rank, recipe_of(stages=cut))

    return arranged


@pytest.mark.parametrize("count", [1, 2])
def test_it_equals_the_model(
    model: nn.Module, wrap_model: Callable[..., Parallel], count: int
) -> None:
    parallel = wrap_model(count)
    objective = Objective(loss, probe_torch.metrics, Precision("fp32", "cpu"))
    images, labels = (torch.as_tensor(part[:7]) for part in probe_torch.datasets()[0])

    parallel.train()
    result = parallel.train_batch((images, labels), 0.5, objective, sync=True)
    expected = 0.5 * loss(model(images), labels)
    torch.autograd.backward(expected)

    assert torch.equal(loss_of(result), expected.detach())
    ours = dict(parallel.module.named_parameters())
    for name, parameter in model.named_parameters():
        assert torch.equal(ours[name].grad, parameter.grad), name
    parallel.evaluate()
    figures = parallel.validate_batch((images, labels), objective)
    assert figures == objective.loss_and_metrics(model(images), labels)
    assert parallel.count_parameters() == sum(p.numel() for p in model.parameters())


def test_every_stage_is_called_in_order(wrap_model: Callable[..., Parallel]) -> None:
    parallel = wrap_model(2)
    seen: list[str] = []
    for name, module in parallel.module.named_modules():
        if isinstance(module, nn.Linear):
            module.register_forward_hook(lambda *_, name=name: seen.append(name))
    parallel.outputs(torch.randn(2, 8, 8))  # type: ignore[attr-defined]
    assert seen == [n for n, m in parallel.module.named_modules() if isinstance(m, nn.Linear)]
