"""What happens between the gradients and the next step: scaler, clipping, schedule, optimizer."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from engine.pytorch.parallel import Parallel
from engine.pytorch.precision import Precision
from engine.pytorch.process_group import Group
from engine.spec.run_spec import RunSpec
from engine.training import lr_schedule


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
        group: Group,
        precision: Precision,
        spec: RunSpec,
    ) -> None:
        self.optimizer = optimizer
        self._parallel = parallel
        self._group = group
        self._scaler = precision.scaler
        self._spec = spec
        self._rates = [float(group["lr"]) for group in optimizer.param_groups]
        self._parameters = [p for group in optimizer.param_groups for p in group["params"]]
        self._skips = spec.on_nan == "skip"
        self._before: list[torch.Tensor] = []

    def begin(self) -> None:
        """Forget the gradients of the step before; call this before the forward pass."""
        self.optimizer.zero_grad(set_to_none=True)
        if self._skips:
            self._before = [kept.detach().clone() for kept in self._parallel.statistics()]

    def apply(self, step: int, total_steps: int, loss: torch.Tensor) -> dict[str, Any]:
        """Do the update after `step` of `total_steps` steps; its figures: numbers, or 0-d tensors
        on a device.

        `loss` is this rank's part of the step's.
        """
        spec = self._spec
        factor = lr_schedule.factor(spec.schedule, spec.warmup_steps, step, total_steps)
        for group, rate in zip(self.optimizer.param_groups, self._rates, strict=True):
            group["lr"] = rate * factor
        figures: dict[str, Any] = {"learning_rate": self._rates[0] * factor}
        if spec.clip_norm > 0 or spec.gradient_norm or self._skips:
            self._scaler.unscale_(self.optimizer)
            figures["gradient_norm"] = norm = self._norm()
            if self._skips and not self._is_finite(loss, norm):
                self._undo_forward()
                self._scaler.update()
                return figures
            if spec.clip_norm > 0:
                nn.utils.clip_grads_with_norm_(self._parameters, spec.clip_norm, norm)
        self._scaler.step(self.optimizer)
        self._scaler.update()
        return figures

    def _norm(self) -> torch.Tensor:
        """The norm of all gradients together, before clipping."""
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        return self._parallel.gradient_norm(gradients)

    def _is_finite(self, loss: torch.Tensor, norm: torch.Tensor) -> bool:
        """Whether loss and gradients are, on every rank; all ranks get the same answer."""
        both = norm.detach().double() + loss.detach().to(norm.device, torch.float64)
        return bool(self._group.all_reduce_sum(both.cpu()).isfinite())

    def _undo_forward(self) -> None:
        """Running statistics of a batch that gave no finite loss would spoil every validation."""
        with torch.no_grad():
            for now, before in zip(self._parallel.statistics(), self._before, strict=True):
                now.copy_(before)
