"""Which indices are named in the first step, and which right programs are left alone."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch import nn
from torch._dynamo.eval_frame import OptimizedModule
from torch.func import grad, vmap
from torch.nn import functional

from engine.pytorch.probes.index_check import IndexCheck
from engine.pytorch.probes.trial import Trial
from engine.training.errors import TrainingFailed

OUTPUTS = torch.randn(4, 5)
PIXELS = torch.randn(2, 5, 3, 3)
EMBEDDING = nn.Embedding(7, 2)


def classes(*values: int) -> torch.Tensor:
    return torch.tensor(values)


@pytest.mark.parametrize(
    ("compute", "said"),
    [
        (lambda: functional.cross_entropy(OUTPUTS, classes(0, 1, 7, 2)), "the class 7 .* 5 output"),
        (lambda: nn.CrossEntropyLoss()(OUTPUTS, classes(0, -1, 4, 2)), "the class -1 "),
        (lambda: functional.nll_loss(OUTPUTS, target=classes(5, 0, 0, 0)), "the class 5 "),
        (lambda: functional.cross_entropy(PIXELS, torch.full((2, 3, 3), 9)), "the class 9 "),
        (lambda: functional.cross_entropy(OUTPUTS[0], torch.tensor(6)), "the class 6 "),
        (lambda: EMBEDDING(classes(0, 7)), "the index 7, .* 7 rows, for 0 to 6"),
    ],
)
def test_an_index_out_of_range_is_named(compute: Callable[[], Any], said: str) -> None:
    with pytest.raises(TrainingFailed, match=said), IndexCheck():
        compute()


@pytest.mark.parametrize(
    "compute",
    [
        lambda: functional.cross_entropy(OUTPUTS, classes(0, -100, 4, 2)),
        lambda: functional.cross_entropy(OUTPUTS, classes(0, 9, 4, 2), ignore_index=9),
        lambda: nn.CrossEntropyLoss(ignore_index=-1)(OUTPUTS, classes(0, -1, 4, 2)),
        lambda: functional.cross_entropy(OUTPUTS, OUTPUTS.softmax(1)),
        lambda: functional.binary_cross_entropy_with_logits(OUTPUTS, torch.ones(4, 5)),
        lambda: functional.mse_loss(OUTPUTS, torch.full((4, 5), 9)),
        lambda: functional.cross_entropy(OUTPUTS[:0], classes().long()),
        lambda: EMBEDDING(classes(0, 6)),
        lambda: vmap(grad(lambda outputs, target: functional.cross_entropy(outputs, target)))(
            OUTPUTS, classes(0, 1, 2, 4)
        ),
    ],
)
def test_right_programs_compute_the_same(compute: Callable[[], torch.Tensor]) -> None:
    with IndexCheck():
        found = compute()
    torch.testing.assert_close(found, compute(), equal_nan=True)


@pytest.mark.parametrize(
    ("device", "compiles", "module", "is_checked"),
    [
        ("cuda", False, nn.Linear(2, 2), True),
        ("cpu", False, nn.Linear(2, 2), False),
        ("cuda", True, nn.Linear(2, 2), False),
        ("cuda", False, OptimizedModule(nn.Linear(2, 2), lambda compiled: compiled), False),
    ],
    ids=["GPU", "CPU says it itself", "compiled by the spec", "compiled by the recipe"],
)
def test_the_first_step_is_checked_on_a_gpu(
    device: str, compiles: bool, module: nn.Module, is_checked: bool
) -> None:
    rank = SimpleNamespace(device=torch.device(device), spec=SimpleNamespace(compile=compiles))
    made: Any = SimpleNamespace(module=module)
    trial = Trial(made, cast(Any, None), cast(Any, rank), None, print)
    assert isinstance(trial.indices(), IndexCheck if is_checked else nullcontext)
