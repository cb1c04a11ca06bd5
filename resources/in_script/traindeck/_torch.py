"""PyTorch in this process: which optimizers step, which gradients wait, what a model is.

Imported only when the script has imported torch.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from traindeck._state.kept import Kept

Plain = dict[str, Any]


class TorchState:
    """Follows the script's optimizers and gradients from the moment it is made."""

    def __init__(self) -> None:
        self.stepped: weakref.WeakSet[Optimizer] = weakref.WeakSet()
        """The optimizers that have made a step."""

        self.steps = 0
        """Optimizer steps so far, of all optimizers."""

        self.has_pending_gradients = False
        """Whether `backward` was called after the last optimizer step: gradients accumulate."""

        self._follow_gradients()

    def is_evaluating(self, things: Iterable[Any]) -> bool:
        """Whether the script validates now: no gradients, or all models of `things` in `eval()`."""
        if not torch.is_grad_enabled():
            return True
        models = [thing for thing in things if isinstance(thing, nn.Module)]
        return bool(models) and not any(model.training for model in models)

    def accumulates(self, kept: Kept) -> bool:
        """Whether gradients wait for a later batch; not if no optimizer is known to use them."""
        if not self.has_pending_gradients:
            return False
        return bool(self.stepped) or any(isinstance(t, Optimizer) for t in kept.things.values())

    def gradients(self, models: dict[str, Any]) -> Plain:
        """Return gradients that wait for an optimizer step, by model and parameter."""
        if not self.has_pending_gradients:
            return {}
        return {
            name: {
                parameter_name: parameter.grad
                for parameter_name, parameter in unwrapped(model).named_parameters()
                if parameter.grad is not None
            }
            for name, model in models.items()
            if isinstance(model, nn.Module)
        }

    def restore_gradients(self, models: dict[str, Any], gradients: Plain) -> None:
        """Give the parameters the gradients that waited."""
        for name, found in gradients.items():
            parameters = dict(unwrapped(models[name]).named_parameters())
            for parameter_name, gradient in found.items():
                parameter = parameters[parameter_name]
                parameter.grad = gradient.to(parameter.device)
        self.has_pending_gradients = bool(gradients)

    def parameters(self, models: Iterable[Any]) -> int:
        """Return the number of trainable parameters."""
        found = {p for m in models if isinstance(m, nn.Module) for p in m.parameters()}
        return sum(parameter.numel() for parameter in found if parameter.requires_grad)

    def _follow_gradients(self) -> None:
        original = torch.autograd.backward

        @functools.wraps(original)
        def backward(*args: Any, **options: Any) -> None:
            self.has_pending_gradients = True
            original(*args, **options)

        torch.autograd.backward = backward
        from torch.optim.optimizer import register_optimizer_step_post_hook

        register_optimizer_step_post_hook(self._note_step)

    def _note_step(self, optimizer: Optimizer, *_: Any) -> None:
        self.steps += 1
        self.has_pending_gradients = False
        self.stepped.add(optimizer)


def unwrapped(thing: Any) -> Any:
    """Return the model itself, without DataParallel, DDP or torch.compile around it."""
    while isinstance(thing, nn.Module):
        if isinstance(thing, (DistributedDataParallel, nn.DataParallel)):
            thing = thing.module
        elif "_orig_mod" in thing._modules:
            thing = thing._modules["_orig_mod"]
        else:
            break
    return thing
