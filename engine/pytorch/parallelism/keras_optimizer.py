"""A Keras optimizer with the interface of a PyTorch optimizer."""

from __future__ import annotations

from typing import Any

import keras
import torch


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
        self._optimizer.apply(gradients, self._variables)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Copy the result of `state_dict()`, in place, into the variables of Keras."""
        (group,), (saved,) = self.param_groups, state_dict["param_groups"]
        group["lr"] = saved["lr"]
        states = state_dict["state"][saved["params"][0]]
        with torch.no_grad():
            for name, slot in self.state[group["params"][0]].items():
                slot.copy_(states[name])

    def _set_rate(self, rate: float) -> None:
        if self._has_own_schedule:
            raise ValueError(
                "The recipe's optimizer has a learning rate schedule of its own: "
                "choose the schedule constant without warm-up steps."
            )
        self._optimizer.learning_rate = rate
        self._rate = rate
