"""The optimizer step that follows the gradients: loss scale, clipping, schedule, update."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from engine.pytorch.parallel import Parallel
from engine.pytorch.precision import Precision
from engine.pytorch.process_group import Group
from engine.pytorch.recipe.defaults import is_fused
from engine.pytorch.recipe.optimizer_plan import SchedulerPlan
from engine.spec.run_spec import RunSpec
from engine.training import lr_schedule
from engine.training.errors import TrainingFailed

_log = logging.getLogger(__name__)

_CLIP_MARGIN = 1e-6
"""As PyTorch's clipping has it."""

_PLAIN = (bool, int, float, str, type(None))


def chosen_optimizer(spec: RunSpec, parameters: list[nn.Parameter]) -> torch.optim.Optimizer | None:
    """Return the optimizer of the spec; None if the spec leaves it to the recipe."""
    rate, decay, momentum = spec.learning_rate, spec.weight_decay, spec.momentum
    fused = is_fused(spec.precision, parameters)
    match spec.optimizer:
        case "sgd":
            return torch.optim.SGD(
                parameters, rate, momentum=momentum, weight_decay=decay, fused=fused
            )
        case "rmsprop":
            return torch.optim.RMSprop(parameters, rate, momentum=momentum, weight_decay=decay)
        case "adam":
            return torch.optim.Adam(parameters, rate, weight_decay=decay, fused=fused)
        case "adamw":
            return torch.optim.AdamW(parameters, rate, weight_decay=decay, fused=fused)
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
        schedulers: Sequence[SchedulerPlan] = (),
    ) -> None:
        """`schedulers` are the recipe's. Raises TrainingFailed if the spec has a schedule too."""
        if schedulers and (spec.schedule != "constant" or spec.warmup_steps):
            name = type(schedulers[0].scheduler).__name__
            chosen = spec.schedule if spec.schedule != "constant" else "warm-up steps"
            raise TrainingFailed(
                f"The optimizer of the recipe has a scheduler ({name}), and this run has a "
                f"schedule of its own ({chosen}): choose the schedule constant without warm-up "
                "steps, or remove the scheduler from the recipe."
            )
        self.optimizer = optimizer
        self._schedulers = schedulers
        self._parallel = parallel
        self._group = group
        self._scaler = precision.scaler
        self._spec = spec
        self._rates = [float(group["lr"]) for group in optimizer.param_groups]
        self.parameters = [p for group in optimizer.param_groups for p in group["params"]]
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
        metrics: dict[str, Any] = {"learning_rate": self._set_rates(step, total_steps)}
        self._update(loss, metrics)
        for plan in self._schedulers:
            if plan.per_step and (step + 1) % plan.frequency == 0:
                plan.scheduler.step()
        self._statistics_before = []
        return metrics

    def end_epoch(self, epoch: int, metrics: Mapping[str, float]) -> None:
        """Step the schedulers that follow epochs or a metric; `epoch` epochs are done.

        Raises TrainingFailed if there is no such metric.
        """
        for plan in self._schedulers:
            if plan.per_step or epoch % plan.frequency:
                continue
            if not plan.monitor:
                plan.scheduler.step()
            elif (value := _monitored(plan, metrics)) is not None:
                plan.scheduler.step(value)

    def check_metrics(self, metrics: Mapping[str, float]) -> None:
        """Raise TrainingFailed if a scheduler follows what is not among `metrics`."""
        for plan in self._schedulers:
            if plan.monitor and plan.is_strict:
                _monitored(plan, metrics)

    def state(self) -> dict[str, Any]:
        """Return what the schedulers know and have set, in plain types; {} without schedulers."""
        if not self._schedulers:
            return {}
        return {
            "schedulers": [plan.scheduler.state_dict() for plan in self._schedulers],
            "groups": [
                {key: value for key, value in group.items() if _is_plain(value)}
                for group in self.optimizer.param_groups
            ],
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` returned. An older checkpoint has no state: it changes nothing."""
        for plan, saved in zip(self._schedulers, state.get("schedulers", ()), strict=False):
            plan.scheduler.load_state_dict(saved)
        for group, values in zip(
            self.optimizer.param_groups, state.get("groups", ()), strict=False
        ):
            group.update(values)

    def _set_rates(self, step: int, total_steps: int) -> float:
        """Set the learning rates of this step by the spec; return that of the first group.

        The recipe's own schedulers have set them already.
        """
        spec, groups = self._spec, self.optimizer.param_groups
        if not self._schedulers:
            factor = lr_schedule.factor(spec.schedule, spec.warmup_steps, step, total_steps)
            for group, rate in zip(groups, self._rates, strict=True):
                group["lr"] = rate * factor
        return float(groups[0]["lr"])

    def _update(self, loss: torch.Tensor, metrics: dict[str, Any]) -> None:
        """Update the parameters in place, unless the step is left out; add to `metrics`."""
        spec = self._spec
        if spec.clip_norm > 0 or spec.gradient_norm or self._skips_nan_steps:
            self._scaler.unscale_(self.optimizer)
            gradients, sparse = self._gradients()
            norm = self._parallel.gradient_norm([*gradients, *sparse])
            metrics["gradient_norm"] = norm
            if self._skips_nan_steps and not self._is_finite(loss, norm):
                self._restore_running_statistics()
                self._update_scale(metrics, is_left_out=True)
                return
            if spec.clip_norm > 0:
                dense = [p for p in self.parameters if p.grad is not None and not p.grad.is_sparse]
                nn.utils.clip_grads_with_norm_(dense, spec.clip_norm, norm)
                for values in sparse:
                    values.mul_((spec.clip_norm / (norm + _CLIP_MARGIN)).clamp(max=1.0))
        if not self._scaler.is_enabled():
            self.optimizer.step()
            return
        self._scaler.step(self.optimizer)
        self._update_scale(metrics)

    def _update_scale(self, metrics: dict[str, Any], *, is_left_out: bool = False) -> None:
        """Update the scale of fp16's losses, and add to `metrics` whether the step is left out."""
        if not self._scaler.is_enabled():
            return
        scale = self._scaler._scale  # as a number it would wait for the device
        assert scale is not None, "the loss of this step was scaled"
        before = scale.clone()
        self._scaler.update()  # in place: the scale shrinks after a step that it has left out
        skipped = torch.ones_like(scale) if is_left_out else (scale < before).float()
        metrics["skipped_updates"] = skipped

    def _gradients(self) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """Return the dense gradients, and the values of the sparse ones with each index once."""
        dense, sparse = [], []
        for parameter in self.parameters:
            if parameter.grad is None:
                continue
            if parameter.grad.is_sparse:
                parameter.grad = parameter.grad.coalesce()
                sparse.append(parameter.grad._values())
            else:
                dense.append(parameter.grad)
        return dense, sparse

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


def _monitored(plan: SchedulerPlan, metrics: Mapping[str, float]) -> float | None:
    """Return the metric that a scheduler follows; None: it may be missing.

    Raises TrainingFailed if there must be one.
    """
    monitor = plan.monitor
    for name in (monitor, f"validation/{monitor}", _our_name(monitor)):
        if name in metrics:
            return metrics[name]
    written = plan.written or monitor
    there_are = ", ".join(metrics) or "none"
    if not plan.is_strict:
        _log.warning("the scheduler follows %r, which is missing of: %s", written, there_are)
        return None
    raise TrainingFailed(
        f"The scheduler of the recipe follows {written!r}, and there is no such metric after an "
        f"epoch. There are: {there_are}."
    )


def _our_name(monitor: str) -> str:
    """Return `validation/loss` for `val_loss`, as other libraries name it."""
    for theirs, ours in (("val_", "validation/"), ("valid_", "validation/"), ("train_", "train/")):
        if monitor.startswith(theirs):
            return ours + monitor.removeprefix(theirs)
    return monitor


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(map(_is_plain, value)) and not any(isinstance(v, tuple | list) for v in value)
    return isinstance(value, _PLAIN)
