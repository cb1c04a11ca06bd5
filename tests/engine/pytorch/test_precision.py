"""Which kernels of PyTorch a precision allows on an NVIDIA GPU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from engine.pytorch.precision import Precision
from engine.spec.run_spec import FIELDS


@pytest.fixture(autouse=True)
def switches() -> Iterator[None]:
    """What PyTorch sets by itself: a test before in this process may have changed it."""
    before = torch.backends.cudnn.allow_tf32, torch.get_float32_matmul_precision()
    torch.backends.cudnn.allow_tf32 = True
    torch.set_float32_matmul_precision("highest")
    yield
    torch.backends.cudnn.allow_tf32 = before[0]
    torch.set_float32_matmul_precision(before[1])


def after(precision: str) -> tuple[bool, str]:
    """Whether convolutions may be computed in TF32, and how matrices are multiplied."""
    Precision(precision, "cpu")
    return torch.backends.cudnn.allow_tf32, torch.get_float32_matmul_precision()


def test_the_default_is_that_of_pytorch() -> None:
    assert after(str(FIELDS["precision"].default)) == (True, "highest")


@pytest.mark.parametrize(
    ("precision", "expected"), [("fp32", (False, "highest")), ("tf32", (True, "high"))]
)
def test_a_format_is_chosen_by_its_name(precision: str, expected: tuple[bool, str]) -> None:
    assert after(precision) == expected


@pytest.mark.parametrize(
    ("precision", "allowed"),
    [("default", False), ("bf16", False), ("fp16", False), ("fp32", False), ("tf32", True)],
)
def test_a_recipe_may_choose_where_the_run_does_not(precision: str, allowed: bool) -> None:
    torch.backends.cudnn.allow_tf32 = False
    torch.set_float32_matmul_precision("medium")
    multiplied = {"fp32": "highest", "tf32": "high"}.get(precision, "medium")
    assert after(precision) == (allowed, multiplied)
