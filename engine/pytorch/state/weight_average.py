"""A running average of a model's weights (EMA, SWA), for validation, on every rank's own shards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

from engine.pytorch import memory
from engine.training.errors import TrainingFailed

PREFIX = "average."
"""Begins the names of the averaged tensors in a checkpoint."""


class WeightAverage:
    """Averages the tensors of `module` as the recipe's AveragedModel does, with its function.

    The averages are a copy of each tensor on the same device. In validation they change places with
    the tensors of the module, so the model is used as it was placed, under each strategy.
    """

    def __init__(
        self, module: nn.Module, averaged: AveragedModel, before_exchange: Callable[[], None]
    ) -> None:
        """`averaged` has the function and whether buffers are averaged; its model is not used.

        `before_exchange` is called before tensors of `module` are changed.
        """
        named: dict[str, torch.Tensor] = dict(module.named_parameters())
        if averaged.use_buffers:
            named |= dict(module.named_buffers())
        self._named = named
        self._averages = {name: tensor.detach().clone() for name, tensor in named.items()}
        self._average = AveragedModel(
            nn.Module(),
            avg_fn=averaged.avg_fn,
            multi_avg_fn=averaged.multi_avg_fn,
            use_buffers=averaged.use_buffers,
        )
        self._average.module = _Tensors(self._averages.values())
        self._before_exchange = before_exchange
        self._is_in_place = False

    @property
    def updates(self) -> int:
        """The number of updates so far."""
        return int(self._average.n_averaged)

    @updates.setter
    def updates(self, count: int) -> None:
        self._average.n_averaged.fill_(count)

    def update(self) -> None:
        """Add the present tensors of the module to the averages; call this after each step."""
        self._average.update_parameters(_Tensors(self._named.values()))

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return the averages by their names in a checkpoint."""
        return {PREFIX + name: tensor for name, tensor in self._averages.items()}

    def move(self, device: torch.device | None) -> None:
        """Move the averages to `device`; None: back to the devices of the module's tensors."""
        for name, average in self._averages.items():
            part = memory.own_part(average)
            part.data = part.data.to(device or self._named[name].device)
        self._average.module = _Tensors(self._averages.values())

    def put_in_place(self) -> None:
        """Let the module compute with the averages, until `take_back`."""
        if self.updates and not self._is_in_place:
            self._exchange()
            self._is_in_place = True

    def take_back(self) -> None:
        """Undo `put_in_place`."""
        if self._is_in_place:
            self._exchange()
            self._is_in_place = False

    @contextmanager
    def taken_back(self) -> Iterator[None]:
        """Have the module's own tensors in it inside the context."""
        was_in_place = self._is_in_place
        self.take_back()
        try:
            yield
        finally:
            if was_in_place:
                self.put_in_place()

    @torch.no_grad()
    def _exchange(self) -> None:
        self._before_exchange()
        for name, tensor in self._named.items():
            own, average = _local(tensor), _local(self._averages[name])
            kept = own.clone()
            own.copy_(average)
            average.copy_(kept)


class _Tensors(nn.Module):
    """Tensors as an AveragedModel expects them: as the parameters of a module."""

    def __init__(self, tensors: Iterable[torch.Tensor]) -> None:
        super().__init__()
        local: Any = {str(number): _local(tensor) for number, tensor in enumerate(tensors)}
        self._parameters.update(local)


def _local(tensor: torch.Tensor) -> torch.Tensor:
    """Return the part of `tensor` that this rank has; it shares its memory."""
    return memory.own_part(tensor).detach()


def checked(averaged: Any) -> AveragedModel:
    """Return what the recipe's ema(model) gave.

    Raises TrainingFailed if it is no AveragedModel, or one that averages in its own way.
    """
    if not isinstance(averaged, AveragedModel):
        raise TrainingFailed(
            f"ema() of the recipe gave a {type(averaged).__name__}: it must return "
            "torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.999))."
        )
    if type(averaged).update_parameters is not AveragedModel.update_parameters:
        raise TrainingFailed(
            f"ema() of the recipe gave a {type(averaged).__name__} with its own "
            "update_parameters(): only the functions avg_fn and multi_avg_fn of an AveragedModel "
            "can be used on every strategy."
        )
    return averaged
