"""The PyTorch side of the training loop: steps, validation and checkpoints of one rank."""

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
import torch._dynamo  # every optimizer imports it; here it comes before the seeds are set

from engine.pytorch import memory, training_state
from engine.pytorch.batch_sharder import BatchSharder
from engine.pytorch.data import as_samples
from engine.pytorch.optimizer_step import OptimizerStep, chosen_optimizer
from engine.pytorch.parallel import LossAndMetrics, Objective, Rank
from engine.pytorch.precision import Precision
from engine.pytorch.process_group import Group, ProcessGroup, SingleProcess
from engine.pytorch.torch_strategy import OneProcess, TorchStrategy
from engine.runs.checkpoint_files import Position
from engine.spec.device_names import is_logical_cpu
from engine.training import sample_order
from engine.worker.session import WorkerSession


def no_metrics(outputs: torch.Tensor, targets: torch.Tensor) -> LossAndMetrics:
    """Return no metrics: the default of a recipe."""
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
        defaults = strategy.defaults(session.recipe.file)
        recipe = session.load_recipe()
        _seed(spec.seed)  # after the imports: some of them draw random numbers

        def recipe_function(name: str, default: Any) -> Callable[..., Any]:
            """Return a function of the recipe with its settings bound, or `default`."""
            function = getattr(recipe, name, default)
            settings = session.settings_for(function) if function else {}
            return partial(function, **settings) if settings else function

        with self._explain_out_of_memory():
            model = recipe_function("model", None)()
            train, validation = (
                as_samples(
                    dataset,
                    seed=spec.seed,
                    loader_workers=spec.loader_workers,
                    device=self._rank.device,
                )
                for dataset in recipe_function("datasets", None)()
            )
            first_inputs, _ = next(iter(train.batches([np.zeros(1, np.int64)], 0)))
            defaults.build(model, first_inputs)
            self._parallel = strategy.wrap_model(model, self._rank, recipe_function("stages", None))
            training_state.check(self._parallel.module)
            precision = Precision(spec.precision, self._rank.device.type)
            self._objective = Objective(
                recipe_function("loss", defaults.loss),
                recipe_function("metrics", no_metrics),
                precision,
            )
            chosen: Any = chosen_optimizer(spec, self._parallel.parameters())
            if chosen is None:
                make_optimizer = recipe_function("optimizer", defaults.optimizer)
                chosen = make_optimizer(self._parallel.optimizer_inputs(), spec.learning_rate)
            optimizer = self._parallel.as_torch_optimizer(chosen)
        # From here on every rank draws different random numbers: dropout must differ.
        _seed(spec.seed + session.rank)
        make_sharder = partial(
            BatchSharder,
            batch_size=spec.batch_size,
            accumulation=spec.accumulation,
            replica=self._parallel.replica,
            replicas=self._parallel.replicas,
            device=self._parallel.device,
        )
        self._train = make_sharder(
            train, lambda epoch: sample_order.epoch_order(len(train), spec.seed, epoch)
        )
        all_validation = np.arange(len(validation))
        self._validation = make_sharder(validation, lambda epoch: all_validation)
        self._validation_size = len(validation)
        self.replicas = strategy.replicas(spec.slots)
        self.steps_per_epoch = self._train.batches
        self.validation_batches = self._validation.batches
        self.parameters = self._parallel.count_parameters()
        self._optimizer_step = OptimizerStep(
            optimizer, self._parallel, self._rank.group, precision, spec
        )
        self._precision = precision
        self._sums: dict[str, float] = {}
        self._offload: memory.HostOffload | None = None
        self._step_seconds = 0.0

    def run_steps(self, position: Position, count: int) -> dict[str, list[float]]:
        begin = time.perf_counter()
        self._parallel.train()
        figures: dict[str, list[Any]] = {}
        with self._explain_out_of_memory():
            for number in range(count):
                for name, value in self._step(position, number).items():
                    figures.setdefault(name, []).append(value)
        # One copy from the device and one all-reduce for the whole chunk.
        losses = self._rank.group.all_reduce_sum(_to_host(figures.pop("loss")))
        on_host = {name: _to_host(values).tolist() for name, values in figures.items()}
        self._step_seconds += time.perf_counter() - begin
        return {"loss": losses.tolist()} | on_host

    def rank_metrics(self) -> dict[str, float]:
        seconds = self._step_seconds
        data = min(1.0, self._train.waiting_seconds / seconds) if seconds else 0.0
        communication = min(1 - data, self._parallel.communication_share(seconds))
        self._train.waiting_seconds = self._step_seconds = 0.0
        return {
            "data_share": data,
            "communication_share": communication,
            "compute_share": 1 - data - communication,
        } | memory.metrics(self._rank.devices)

    def begin_validation(self) -> None:
        self._parallel.evaluate()
        self._sums = {}

    def validate(self, batch: int, count: int) -> None:
        with self._explain_out_of_memory():
            for number in range(batch, batch + count):
                for local in self._validation.local_batches(0, number):
                    values = self._parallel.validate_batch(
                        local.inputs, local.targets, self._objective
                    )
                    for name, value in values.items():
                        term = float(value) * local.samples
                        self._sums[name] = self._sums.get(name, 0.0) + term

    def end_validation(self) -> dict[str, float]:
        # In a pipeline only the last rank has metrics.
        has_names = self._parallel.replica == 0 and bool(self._sums)
        text = json.dumps(list(self._sums)) if has_names else ""
        names = json.loads(self._rank.group.broadcast_text(text))
        sums = torch.tensor([self._sums.get(name, 0.0) for name in names], dtype=torch.float64)
        means = self._rank.group.all_reduce_sum(sums) / self._validation_size
        return dict(zip(names, means.tolist(), strict=True))

    def save(self, folder: Path) -> None:
        self._parallel.sync_buffers()
        training_state.save(
            folder, self._parallel.module, self._optimizer_step.optimizer, self._rank.group.cpu
        )
        state = {"scaler": self._precision.scaler.state_dict(), **self._parallel.rank_state()}
        path = folder / f"rank{self._rank.number}.pt"
        training_state.save_rank_state(path, state, self._rank.devices)

    def restore(self, folder: Path) -> None:
        training_state.restore(
            folder, self._parallel.module, self._optimizer_step.optimizer, self._rank.group.cpu
        )
        path = folder / f"rank{self._rank.number}.pt"
        if path.exists():  # it is missing if the checkpoint has fewer ranks
            state = training_state.restore_rank_state(path, self._rank.devices)
            if scaler := state.pop("scaler"):  # it is empty if the run did not use fp16
                self._precision.scaler.load_state_dict(scaler)
            self._parallel.load_rank_state(state)

    def free_devices(self) -> None:
        self._parallel.free_devices()
        self._offload = memory.HostOffload(self._parallel.module, self._optimizer_step.optimizer)
        self.empty_cache()

    def restore_devices(self) -> None:
        if self._offload:
            self._offload.restore()
            self._offload = None
            self._parallel.restore_devices()

    def empty_cache(self) -> dict[str, int]:
        return memory.empty_cache(self._rank.devices, self._device_names)

    def agree(self, control_word: tuple[int, int]) -> tuple[int, int]:
        return self._rank.group.agree(control_word)

    def close(self) -> None:
        self._train.close()
        self._validation.close()
        self._rank.group.close()

    def _step(self, start: Position, number: int) -> dict[str, Any]:
        """Do the optimizer step that is `number` steps after `start`; return its metrics.

        The loss is this rank's part of the mean over the global batch.
        """
        self._optimizer_step.begin()
        accumulation = self._spec.accumulation
        losses = [
            self._parallel.train_batch(
                local.inputs,
                local.targets,
                local.weight,
                self._objective,
                sync=count == accumulation,
            )
            for count, local in enumerate(
                self._train.local_batches(start.epoch, start.batch + number), start=1
            )
        ]
        loss = sum(losses[1:], losses[0])
        total_steps = start.total_steps(self.steps_per_epoch, self._spec.epochs)
        return {"loss": loss} | self._optimizer_step.apply(start.step + number, total_steps, loss)

    def _explain_out_of_memory(self) -> Any:
        spec = self._spec
        batch = -(-spec.batch_size // (self._rank.world_size * spec.accumulation))
        return memory.explain_out_of_memory(
            self._rank.device, self._device_names[0], batch, spec.accumulation
        )


def build(session: WorkerSession, strategy: TorchStrategy) -> TorchTrainer:
    """Return the trainer of this process."""
    return TorchTrainer(session, strategy)


def _devices(session: WorkerSession) -> tuple[torch.device, ...]:
    """Return this process' devices; CUDA sees only the GPUs of the spec, in its order."""
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
    shares_gpus = session.spec.workers_per_device > 1  # nccl allows one rank per GPU
    backend = "gloo" if shares_gpus else session.spec.backend
    return ProcessGroup(session.rank, session.world_size, device, backend)


def _to_host(values: list[Any]) -> torch.Tensor:
    """Return numbers or 0-d tensors of one device as a float64 tensor on the CPU, in one copy."""
    if isinstance(values[0], torch.Tensor):
        return torch.stack(values).double().cpu()
    return torch.tensor(values, dtype=torch.float64)


def _seed(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
