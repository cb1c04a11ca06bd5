"""What happens between the gradients and the next step: scaler, clipping, schedule, optimizer."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from engine import schedule
from engine.pytorch.parallel import Parallel
from engine.pytorch.precision import Precision
from engine.spec import RunSpec


def chosen_optimizer(spec: RunSpec, parameters: list[nn.Parameter]) -> torch.optim.Optimizer | None:
    """The optimizer that the spec asks for; None: the recipe's."""
    rate, decay, momentum = spec.learning_rate, spec.weight_decay, spec.momentum
    match spec.optimizer:
        case "sgd":
            return torch.optim.SGD(parameters, rate, momentum=momentum, weight_decay=decay)
        case "rmsprop":
            return torch.optim.RMSprop(parameters, rate, momentum=momentum, weight_decay=decay)
        case "adam":
            return torch.optim.Adam(parameters, rate, weight_decay=decay)
        case "adamw":
            return torch.optim.AdamW(parameters, rate, weight_decay=decay)
        case _:
            return None


class Update:
    """Turns the gradients that a rank has gathered into one optimizer step."""

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        parallel: Parallel,
        precision: Precision,
        spec: RunSpec,
        total_steps: int,
    ) -> None:
        self.optimizer = optimizer
        self._parallel = parallel
        self._scaler = precision.scaler
        self._spec = spec
        self._total_steps = total_steps
        self._rates = [float(group["lr"]) for group in optimizer.param_groups]
        self._parameters = [p for group in optimizer.param_groups for p in group["params"]]

    def begin(self) -> None:
        """Forget the gradients of the step before."""
        self.optimizer.zero_grad(set_to_none=True)

    def apply(self, step: int) -> dict[str, Any]:
        """Do the update after `step` steps; its figures: numbers, or 0-d tensors on a device."""
        spec = self._spec
        factor = schedule.factor(spec.schedule, spec.warmup_steps, step, self._total_steps)
        for group, rate in zip(self.optimizer.param_groups, self._rates, strict=True):
            group["lr"] = rate * factor
        figures: dict[str, Any] = {"learning_rate": self._rates[0] * factor}
        if spec.clip_norm > 0 or spec.gradient_norm:
            self._scaler.unscale_(self.optimizer)
            figures["gradient_norm"] = self._norm()
        self._scaler.step(self.optimizer)
        self._scaler.update()
        return figures

    def _norm(self) -> torch.Tensor:
        """The norm of all gradients together before clipping, which happens here."""
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        norm = self._parallel.gradient_norm(gradients)
        if self._spec.clip_norm > 0:
            nn.utils.clip_grads_with_norm_(self._parameters, self._spec.clip_norm, norm)
        return norm
