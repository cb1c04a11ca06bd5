"""A Keras optimizer with the interface of a PyTorch optimizer."""

from __future__ import annotations

from typing import Any

import keras
import torch
from keras.src.backend.torch.optimizers import torch_adam, torch_adamw


class KerasOptimizer(torch.optim.Optimizer):
    """Takes gradients and learning rate from PyTorch; Keras does the update.

    Keras keeps its state (moments and counters) in one list, without the parameter of each entry.
    So here the first parameter owns all entries, by their index in that list. They exist before
    the first step, so a checkpoint can be restored into them.
    """

    def __init__(self, optimizer: Any, variables: list[Any]) -> None:
        """`variables` are the trainable ones. Raises ValueError if `optimizer` has a loss scale."""
        if optimizer.loss_scale_factor is not None or isinstance(
            optimizer, keras.optimizers.LossScaleOptimizer
        ):
            raise ValueError(
                "optimizer() gave one that divides gradients by a loss scale, but the loss is not "
                "scaled for it: leave loss scaling out, and choose precision fp16."
            )
        if not optimizer.built:
            optimizer.build(variables)
        self._optimizer = optimizer
        self._variables = variables
        # A learning rate that is not a variable is a schedule of the recipe.
        self._has_own_schedule = not isinstance(optimizer.learning_rate, keras.Variable)
        self._rate = float(keras.ops.convert_to_numpy(optimizer.learning_rate))
        parameters = [variable.value for variable in variables]
        super().__init__(parameters, {"lr": self._rate})
        self.state[parameters[0]] = {
            f"slot_{index}": variable.value
            for index, variable in enumerate(optimizer.variables)
            if variable is not optimizer.learning_rate
        }
        self._is_adam = not self._has_own_schedule and _is_plain_adam(optimizer, variables)
        self._steps: int | None = None

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Update the parameters in place; a missing gradient counts as 0."""
        rate = float(self.param_groups[0]["lr"])
        if rate != self._rate:
            self._set_rate(rate)
        gradients = [
            torch.zeros_like(p) if p.grad is None else p.grad
            for p in self.param_groups[0]["params"]
        ]
        if self._is_adam:
            self._apply_adam(gradients)
        else:
            self._optimizer.apply(gradients, self._variables)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Copy the result of `state_dict()`, in place, into the variables of Keras."""
        (group,), (saved,) = self.param_groups, state_dict["param_groups"]
        group["lr"] = saved["lr"]
        states = state_dict["state"][saved["params"][0]]
        with torch.no_grad():
            for name, slot in self.state[group["params"][0]].items():
                slot.copy_(states[name])
        self._steps = None

    def _set_rate(self, rate: float) -> None:
        if self._has_own_schedule:
            raise ValueError(
                "The recipe's optimizer has a learning rate schedule of its own: "
                "choose the schedule constant without warm-up steps."
            )
        self._optimizer.learning_rate.value.fill_(rate)  # to assign it, the host would wait
        self._rate = rate

    def _apply_adam(self, gradients: list[torch.Tensor]) -> None:
        """Do what Adam and AdamW of Keras do, operation by operation, without a wait of the host.

        Keras copies five numbers to the device in each step. Here the host knows them.
        """
        optimizer, variables = self._optimizer, self._variables
        if self._steps is None:  # at the first step, and after a restore
            self._steps = int(optimizer.iterations.value)
        gradients = optimizer._clip_gradients(gradients)
        rate = torch.tensor(self._rate)
        if optimizer.weight_decay is not None:
            decayed = [v.value for v in variables if optimizer._use_weight_decay(v)]
            torch._foreach_mul_(decayed, float(1 - torch.tensor(optimizer.weight_decay) * rate))
        steps = torch.tensor(float(self._steps + 1))
        first, second = (torch.tensor(b) ** steps for b in (optimizer.beta_1, optimizer.beta_2))
        size = float(rate * torch.sqrt(1 - second) / (1 - first))
        places = [optimizer._get_variable_index(variable) for variable in variables]
        means = [optimizer._momentums[place].value for place in places]
        squares = [optimizer._velocities[place].value for place in places]
        torch._foreach_mul_(means, optimizer.beta_1)
        torch._foreach_add_(means, gradients, alpha=1 - optimizer.beta_1)
        torch._foreach_mul_(squares, optimizer.beta_2)
        products = torch._foreach_mul(gradients, gradients)
        torch._foreach_add_(squares, products, alpha=1 - optimizer.beta_2)
        roots = torch._foreach_add(torch._foreach_sqrt(squares), optimizer.epsilon)
        changes = torch._foreach_div(torch._foreach_mul(means, size), roots)
        torch._foreach_add_([variable.value for variable in variables], changes, alpha=-1)
        for variable in variables:
            if variable.constraint is not None:
                variable.assign(variable.constraint(variable))
        optimizer.iterations.value.add_(1)
        self._steps += 1


def _is_plain_adam(optimizer: Any, variables: list[Any]) -> bool:
    """Return whether `KerasOptimizer` can do the steps of `optimizer` itself."""
    return (
        type(optimizer) in (torch_adam.Adam, torch_adamw.AdamW)
        and not (optimizer.amsgrad or optimizer.use_ema or optimizer.gradient_accumulation_steps)
        and all(variable.value.dtype == torch.float32 for variable in variables)
        and not any(getattr(variable, "overwrite_with_gradient", False) for variable in variables)
    )
