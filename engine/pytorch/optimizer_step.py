"""The optimizer step that follows the gradients: loss scale, clipping, schedule, update."""

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
    """Return the optimizer of the spec; None if the spec leaves it to the recipe."""
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


class OptimizerStep:
    """Turns the accumulated gradients of a rank into one optimizer step; all ranks call it."""

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
        self._skips_nan_steps = spec.on_nan == "skip"
        self._statistics_before: list[torch.Tensor] = []

    def begin(self) -> None:
        """Delete the gradients of the last step; call this before the forward pass."""
        self.optimizer.zero_grad(set_to_none=True)
        if self._skips_nan_steps:
            self._statistics_before = [
                tensor.detach().clone() for tensor in self._parallel.running_statistics()
            ]

    def apply(self, step: int, total_steps: int, loss: torch.Tensor) -> dict[str, Any]:
        """Update the parameters in place; `step` of `total_steps` steps are done.

        `loss` is this rank's part of the step's loss, a 0-d tensor. Returns the metrics of the
        step: numbers, or 0-d tensors on the rank's device.
        """
        spec = self._spec
        factor = lr_schedule.factor(spec.schedule, spec.warmup_steps, step, total_steps)
        for group, rate in zip(self.optimizer.param_groups, self._rates, strict=True):
            group["lr"] = rate * factor
        metrics: dict[str, Any] = {"learning_rate": self._rates[0] * factor}
        if spec.clip_norm > 0 or spec.gradient_norm or self._skips_nan_steps:
            self._scaler.unscale_(self.optimizer)
            metrics["gradient_norm"] = norm = self._gradient_norm()
            if self._skips_nan_steps and not self._is_finite(loss, norm):
                self._restore_running_statistics()
                self._scaler.update()
                return metrics
            if spec.clip_norm > 0:
                nn.utils.clip_grads_with_norm_(self._parameters, spec.clip_norm, norm)
        self._scaler.step(self.optimizer)
        self._scaler.update()
        return metrics

    def _gradient_norm(self) -> torch.Tensor:
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        return self._parallel.gradient_norm(gradients)

    def _is_finite(self, loss: torch.Tensor, norm: torch.Tensor) -> bool:
        """Return whether loss and gradients are finite on every rank (an all-reduce)."""
        both = norm.detach().double() + loss.detach().to(norm.device, torch.float64)
        return bool(self._group.all_reduce_sum(both.cpu()).isfinite())

    def _restore_running_statistics(self) -> None:
        with torch.no_grad():  # one NaN would stay in the running statistics for ever
            for now, before in zip(
                self._parallel.running_statistics(), self._statistics_before, strict=True
            ):
                now.copy_(before)
