"""The PyTorch side of the training loop: steps, validation, and what a checkpoint holds."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch._dynamo  # as every optimizer does; here it comes before what changes

from engine.pytorch import memory, training_state
from engine.pytorch.batch_sharder import BatchSharder
from engine.pytorch.data import samples
from engine.pytorch.optimizer_step import Update, chosen_optimizer
from engine.pytorch.parallel import Figures, Objective, Rank
from engine.pytorch.precision import Precision
from engine.pytorch.process_group import Group, ProcessGroup, SingleProcess
from engine.pytorch.torch_strategy import OneProcess, TorchStrategy
from engine.runs.checkpoint_files import Position
from engine.spec.device_names import is_logical_cpu
from engine.training import sample_order
from engine.worker.session import WorkerSession


def no_metrics(outputs: torch.Tensor, targets: torch.Tensor) -> Figures:
    """For recipes that only care for the loss."""
    return {}


class TorchTrainer:
    """One rank's model, optimizer and data; see `engine.training.protocols.Trainer`."""

    def __init__(self, session: WorkerSession, strategy: TorchStrategy) -> None:
        spec = session.spec
        self._spec = spec
        self._device_names = session.devices
        self._rank = Rank(
            session.rank, session.world_size, _devices(session), _group(session, strategy), spec
        )
        if spec.deterministic:
            os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
            torch.use_deterministic_algorithms(True)
        strategy.prepare(Path(session.recipe.path))
        recipe = session.load_recipe()
        _seed(spec.seed)  # after the imports: some of them draw

        def bound(name: str, default: Any) -> Callable[..., Any]:
            """A function of the recipe's, with the settings that it takes; looked up only once."""
            function = getattr(recipe, name, default)
            settings = session.settings_for(function) if function else {}
            return partial(function, **settings) if settings else function

        with self._explained():
            model = bound("model", None)()
            train, validation = (
                samples(
                    dataset,
                    seed=spec.seed,
                    loader_workers=spec.loader_workers,
                    device=self._rank.device,
                )
                for dataset in bound("datasets", None)()
            )
            first, _ = next(iter(train.batches([np.zeros(1, np.int64)], 0)))
            strategy.build(model, first)
            self._parallel = strategy.wrap_model(model, self._rank, bound("stages", None))
            precision = Precision(spec.precision, self._rank.device.type)
            self._objective = Objective(
                bound("loss", strategy.default_loss()), bound("metrics", no_metrics), precision
            )
            made: Any = chosen_optimizer(spec, self._parallel.parameters())
            if made is None:
                make = bound("optimizer", strategy.default_optimizer())
                made = make(strategy.optimizer_inputs(self._parallel), spec.learning_rate)
            optimizer = strategy.as_torch_optimizer(made, self._parallel)
        # From here on every rank draws its own numbers (dropout must differ between replicas).
        _seed(spec.seed + session.rank)
        feed = partial(
            BatchSharder,
            replica=self._parallel.replica,
            replicas=self._parallel.replicas,
            device=self._parallel.device,
        )
        self._train = feed(
            train,
            lambda epoch: sample_order.epoch_order(len(train), spec.seed, epoch),
            spec.batch_size,
            accumulation=spec.accumulation,
        )
        everything = np.arange(len(validation))
        self._validation = feed(
            validation, lambda epoch: everything, spec.batch_size, accumulation=spec.accumulation
        )
        self._validation_size = len(validation)
        self.replicas = strategy.replicas(spec.slots)
        self.steps_per_epoch = self._train.batches
        self.validation_batches = self._validation.batches
        self.parameters = self._parallel.count_parameters()
        self._update = Update(optimizer, self._parallel, self._rank.group, precision, spec)
        self._precision = precision
        self._sums: dict[str, float] = {}
        self._away: memory.HostOffload | None = None
        self._seconds = 0.0

    def run_steps(self, position: Position, count: int) -> dict[str, list[float]]:
        begin = time.perf_counter()
        self._parallel.train()
        figures: dict[str, list[Any]] = {}
        with self._explained():
            for number in range(count):
                for name, value in self._step(position, number).items():
                    figures.setdefault(name, []).append(value)
        # One copy from the device and one sum over the ranks for the whole chunk.
        losses = self._rank.group.all_reduce_sum(_to_host(figures.pop("loss")))
        on_host = {name: _to_host(values).tolist() for name, values in figures.items()}
        self._seconds += time.perf_counter() - begin
        return {"loss": losses.tolist()} | on_host

    def rank_metrics(self) -> dict[str, float]:
        seconds = self._seconds
        data = min(1.0, self._train.seconds / seconds) if seconds else 0.0
        communication = min(1 - data, self._parallel.communication_share(seconds))
        self._train.seconds = self._seconds = 0.0
        return {
            "data_share": data,
            "communication_share": communication,
            "compute_share": 1 - data - communication,
        } | memory.figures(self._rank.devices)

    def begin_validation(self) -> None:
        self._parallel.evaluate()
        self._sums = {}

    def validate(self, batch: int, count: int) -> None:
        with self._explained():
            for number in range(batch, batch + count):
                for share in self._validation.shares(0, number):
                    values = self._parallel.validate_batch(
                        share.inputs, share.targets, self._objective
                    )
                    for name, value in values.items():
                        part = float(value) * share.samples
                        self._sums[name] = self._sums.get(name, 0.0) + part

    def end_validation(self) -> dict[str, float]:
        # In a pipeline only the last rank knows what there is to know.
        own = self._parallel.replica == 0 and bool(self._sums)
        names = json.loads(self._rank.group.share_text(json.dumps(list(self._sums)) if own else ""))
        sums = torch.tensor([self._sums.get(name, 0.0) for name in names], dtype=torch.float64)
        means = self._rank.group.all_reduce_sum(sums) / self._validation_size
        return dict(zip(names, means.tolist(), strict=True))

    def save(self, folder: Path) -> None:
        self._parallel.sync_buffers()
        training_state.save(
            folder, self._parallel.module, self._update.optimizer, self._rank.group.cpu
        )
        own = {"scaler": self._precision.scaler.state_dict(), **self._parallel.local_state()}
        training_state.save_own(folder / f"rank{self._rank.number}.pt", own, self._rank.devices)

    def restore(self, folder: Path) -> None:
        training_state.restore(
            folder, self._parallel.module, self._update.optimizer, self._rank.group.cpu
        )
        path = folder / f"rank{self._rank.number}.pt"
        if path.exists():  # else this rank was not there then: its random state stays fresh
            own = training_state.restore_own(path, self._rank.devices)
            if scaler := own.pop("scaler"):  # empty: it was saved without mixed precision
                self._precision.scaler.load_state_dict(scaler)
            self._parallel.load_local_state(own)

    def free_devices(self) -> None:
        self._parallel.leave_devices()
        self._away = memory.HostOffload(self._parallel.module, self._update.optimizer)
        self.empty_cache()

    def restore_devices(self) -> None:
        if self._away:
            self._away.bring_back()
            self._away = None
            self._parallel.return_to_devices()

    def empty_cache(self) -> dict[str, int]:
        return memory.empty_cache(self._rank.devices, self._device_names)

    def agree(self, word: tuple[int, int]) -> tuple[int, int]:
        return self._rank.group.agree(word)

    def close(self) -> None:
        self._train.close()
        self._validation.close()
        self._rank.group.close()

    def _step(self, start: Position, number: int) -> dict[str, Any]:
        """The optimizer step that is `number` steps after `start`; this rank's part of the loss and
        the figures of the update."""
        self._update.begin()
        parts = self._spec.accumulation
        losses = [
            self._parallel.train_batch(
                share.inputs, share.targets, share.weight, self._objective, sync=part == parts
            )
            for part, share in enumerate(
                self._train.shares(start.epoch, start.batch + number), start=1
            )
        ]
        loss = sum(losses[1:], losses[0])
        total_steps = start.total_steps(self.steps_per_epoch, self._spec.epochs)
        return {"loss": loss} | self._update.apply(start.step + number, total_steps, loss)

    def _explained(self) -> Any:
        """Out of memory in this context is said in sentences."""
        spec = self._spec
        parts = max(1, self._rank.world_size) * spec.accumulation
        batch = -(-spec.batch_size // parts)
        return memory.explained(self._rank.device, self._device_names[0], batch, spec.accumulation)


def build(session: WorkerSession, strategy: TorchStrategy) -> TorchTrainer:
    """The trainer of this process."""
    return TorchTrainer(session, strategy)


def _devices(session: WorkerSession) -> tuple[torch.device, ...]:
    """This process' devices; the launcher made exactly the spec's GPUs visible, in its order."""
    chosen = session.spec.devices
    devices = tuple(
        torch.device("cpu") if is_logical_cpu(name) else torch.device("cuda", chosen.index(name))
        for name in session.devices
    )
    if devices[0].type == "cuda":
        torch.cuda.set_device(devices[0])
    return devices


def _group(session: WorkerSession, strategy: TorchStrategy) -> Group:
    if isinstance(strategy, OneProcess):
        return SingleProcess()
    device = _devices(session)[0]
    shared = session.spec.workers_per_device > 1  # which nccl does not allow
    backend = "gloo" if shared else session.spec.backend
    return ProcessGroup(session.rank, session.world_size, device, backend)


def _to_host(values: list[Any]) -> torch.Tensor:
    """Numbers or 0-d tensors of any device as one float64 tensor on the CPU, in one copy."""
    if isinstance(values[0], torch.Tensor):
        return torch.stack(values).double().cpu()
    return torch.tensor(values, dtype=torch.float64)


def _seed(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
