"""torch.compile for modules in training, without anything around them."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any

import torch
from torch import nn
from torch._dynamo.utils import counters

from engine.pytorch.samples.nested import leaves_of


class CompiledForward:
    """The forward pass of a module, compiled while the module is in training mode."""

    def __init__(self, module: nn.Module) -> None:
        forward: Any = module.forward
        self.__wrapped__ = forward
        self._module = module
        is_own = isinstance(forward, MethodType) and forward.__self__ is module
        # As an argument, so that a copy of the module computes with its own parameters.
        self._self = (module,) if is_own else ()
        self._compiled: Callable[..., Any] = torch.compile(forward.__func__ if is_own else forward)

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        if self._module.training:
            return self._compiled(*self._self, *inputs, **options)
        return self.__wrapped__(*inputs, **options)


def compile_forward(module: nn.Module) -> None:
    """Compile the forward pass of `module` in training mode, from now on.

    DDP and the hooks of FSDP stay outside of it: Dynamo skips the frames of PyTorch's own classes,
    so in a Sequential below them it would find nothing to compile. For the same reason
    `module.compile()` has no effect there.
    """
    module.forward = CompiledForward(module)


def fix_size(batch: Any) -> None:
    """Let torch.compile make kernels for the very size of `batch`, if it has none for it.

    After a second size it would take kernels for any size, which are slower, for the first, too.
    """
    for _, leaf in leaves_of(batch):
        if isinstance(leaf, torch.Tensor) and leaf.dim():
            torch._dynamo.mark_static(leaf, 0)


def graph_count() -> int:
    """Return how many graphs torch.compile has made in this process."""
    return int(counters["stats"]["unique_graphs"])
