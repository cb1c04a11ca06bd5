"""The PyTorch side of the training loop: steps, validation, and what a checkpoint holds."""

from __future__ import annotations

import gc
import os
import random
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from engine import sample_order
from engine.device_names import is_logical_cpu
from engine.process import resident_bytes, trim_heap
from engine.pytorch import checkpoint
from engine.pytorch.data import samples, to_device
from engine.pytorch.strategy import TorchStrategy
from engine.worker.session import WorkerSession


def default_loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Cross-entropy from logits for integer targets, mean squared error otherwise."""
    if targets.is_floating_point():
        return nn.functional.mse_loss(outputs, targets)
    return nn.functional.cross_entropy(outputs, targets)


def default_optimizer(parameters: Any, learning_rate: float) -> torch.optim.Optimizer:
    """AdamW."""
    return torch.optim.AdamW(parameters, learning_rate)


def no_metrics(outputs: torch.Tensor, targets: torch.Tensor) -> dict[str, torch.Tensor]:
    """For recipes that only care for the loss."""
    return {}


class TorchTrainer:
    """One rank's model, optimizer and data; see `engine.worker.loop.Trainer`."""

    def __init__(self, session: WorkerSession, strategy: TorchStrategy) -> None:
        self._spec = session.spec
        self._rank = session.rank
        self._world_size = session.world_size
        self._strategy = strategy
        self._device_name = session.devices[0]
        self._device = _device(session.spec.devices, self._device_name)
        strategy.connect(session.rank, session.world_size, self._device)
        _seed(session.spec.seed)
        recipe = session.load_recipe()

        def bound(name: str, default: Callable[..., Any]) -> Callable[..., Any]:
            """A function of the recipe's, with the settings that it takes; looked up only once."""
            function = getattr(recipe, name, default)
            settings = session.settings_for(function)
            return partial(function, **settings) if settings else function

        self._model: nn.Module = recipe.model(**session.settings_for(recipe.model))
        self._model.to(self._device)
        self._replica = strategy.wrap(self._model, self._device)
        train, validation = recipe.datasets(**session.settings_for(recipe.datasets))
        self._train, self._validation = samples(train), samples(validation)
        self._loss = bound("loss", default_loss)
        self._metrics = bound("metrics", no_metrics)
        self._optimizer: torch.optim.Optimizer = bound("optimizer", default_optimizer)(
            [p for p in self._model.parameters() if p.requires_grad],
            session.spec.learning_rate,
        )
        # From here on every rank draws its own numbers (dropout must differ between replicas).
        _seed(session.spec.seed + session.rank)
        self._order: tuple[int, sample_order.Indices] = (-1, np.empty(0, np.int64))
        self._sums: dict[str, float] = {}
        size = session.spec.batch_size
        self.replicas = session.world_size
        self.steps_per_epoch = sample_order.batches_per_epoch(len(self._train), size)
        self.validation_batches = sample_order.batches_per_epoch(len(self._validation), size)
        self.parameters = sum(p.numel() for p in self._model.parameters() if p.requires_grad)

    def run_steps(self, epoch: int, batch: int, count: int) -> list[float]:
        self._replica.train()
        losses = torch.stack([self._step(epoch, b) for b in range(batch, batch + count)])
        # One copy from the device and one sum over the ranks for the whole chunk.
        summed: list[float] = self._strategy.add_up(losses.double().cpu()).tolist()
        return summed

    def begin_validation(self) -> None:
        self._sums = {}

    @torch.no_grad()
    def validate(self, batch: int, count: int) -> None:
        # The bare model: a forward pass of DDP would wait for ranks that have no batch left.
        self._model.eval()
        everything = np.arange(len(self._validation))
        for number in range(batch, batch + count):
            whole = sample_order.global_batch(everything, number, self._spec.batch_size)
            mine = sample_order.share(whole, self._rank, self._world_size)
            if not len(mine):
                continue
            inputs, targets = to_device(self._validation.batch(mine), self._device)
            outputs = self._model(inputs)
            values = {"loss": self._loss(outputs, targets).mean()}
            values |= self._metrics(outputs, targets)
            for name, value in values.items():
                self._sums[name] = self._sums.get(name, 0.0) + float(value) * len(mine)

    def end_validation(self) -> dict[str, float]:
        names = self._metric_names()
        sums = torch.tensor([self._sums.get(name, 0.0) for name in names], dtype=torch.float64)
        means = self._strategy.add_up(sums) / len(self._validation)
        return dict(zip(names, means.tolist(), strict=True))

    def save(self, folder: Path) -> None:
        checkpoint.save(folder, self._model, self._optimizer, self._rank)

    def restore(self, folder: Path) -> None:
        checkpoint.restore(folder, self._model, self._optimizer, self._rank, self._device)

    def empty_cache(self) -> dict[str, int]:
        gc.collect()
        if self._device.type == "cuda":
            before = torch.cuda.memory_reserved(self._device)
            torch.cuda.empty_cache()
            freed = before - torch.cuda.memory_reserved(self._device)
        else:
            before = resident_bytes()
            trim_heap()
            freed = before - resident_bytes()
        return {self._device_name: max(0, freed)}

    def agree(self, word: tuple[int, int]) -> tuple[int, int]:
        return self._strategy.agree(word)

    def barrier(self) -> None:
        self._strategy.barrier()

    def close(self) -> None:
        """Leave the other ranks."""
        self._strategy.disconnect()

    def _step(self, epoch: int, batch: int) -> torch.Tensor:
        """One optimizer step; this rank's part of the loss over the global batch, on the device."""
        whole = sample_order.global_batch(self._epoch_order(epoch), batch, self._spec.batch_size)
        mine = sample_order.share(whole, self._rank, self._world_size)
        part = len(mine) / len(whole)
        # A rank without a sample still has to take part in the backward pass: one sample, weight 0.
        inputs, targets = to_device(
            self._train.batch(mine if len(mine) else whole[:1]), self._device
        )
        self._optimizer.zero_grad(set_to_none=True)
        loss: torch.Tensor = self._loss(self._replica(inputs), targets).mean()
        # DDP averages gradients over the ranks, so the weight holds their number: the result is
        # the gradient of the mean over the global batch, however unevenly it is shared.
        torch.autograd.backward(loss * (part * self._world_size))
        self._optimizer.step()
        return loss.detach() * part

    def _epoch_order(self, epoch: int) -> sample_order.Indices:
        if self._order[0] != epoch:
            order = sample_order.epoch_order(len(self._train), self._spec.seed, epoch)
            self._order = (epoch, order)
        return self._order[1]

    def _metric_names(self) -> list[str]:
        """The same on every rank, also on one that had no validation sample at all."""
        if self._world_size == 1:
            return sorted(self._sums) or ["loss"]
        inputs, targets = to_device(self._validation.batch(np.zeros(1, np.int64)), self._device)
        with torch.no_grad():
            return sorted({"loss", *self._metrics(self._model(inputs), targets)})


def build(session: WorkerSession, strategy: TorchStrategy) -> TorchTrainer:
    """The trainer of this rank; finds the other ranks on the way."""
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    return TorchTrainer(session, strategy)


def _device(chosen: Sequence[str], own: str) -> torch.device:
    """CUDA_VISIBLE_DEVICES lists the chosen GPUs in the spec's order: place is ordinal."""
    if is_logical_cpu(own):
        return torch.device("cpu")
    device = torch.device("cuda", chosen.index(own))
    torch.cuda.set_device(device)
    return device


def _seed(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
