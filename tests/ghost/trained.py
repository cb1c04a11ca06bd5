"""The trainer of PyTorch, run for a few steps on GPUs that do not exist."""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import inspect
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

from tests.ghost.imagined_gpus import Observer, Replica, imagined_gpus  # isort: skip

import msgspec
import torch
import torch.distributed.device_mesh
from torch import distributed
from torch.testing._internal.distributed import fake_pg
from torch.utils._python_dispatch import _disable_current_modes

from engine.pytorch import trainer as trainer_module
from engine.pytorch.parallelism import stage_signature
from engine.pytorch.recipe.from_file import _build as build
from engine.pytorch.torch_strategy import TorchStrategy
from engine.runs.checkpoints.checkpoint_files import Position
from engine.spec import catalog
from engine.spec.recipe_file import read_recipe
from engine.spec.run_spec import RunSpec
from tests.ghost.trials import Found, Trial


class AgreeingRanks:
    """A group in which the other ranks are silent and agree with everything."""

    cpu: distributed.ProcessGroup | None = None
    told: dict[int, str] = {}
    """The shapes between the stages of a pipeline, by the number of the call that tells them: its
    ranks run one after the other."""

    def __init__(self, rank: int, world_size: int, device: Any = None, backend: str = "") -> None:
        self._calls = 0
        self.tells_shapes = False
        if rank == 0:
            self.told.clear()
        store = fake_pg.FakeStore()
        distributed.init_process_group("fake", store=store, rank=rank, world_size=world_size)

    def all_reduce_sum(self, values: torch.Tensor) -> torch.Tensor:
        assert values.is_cpu, "the group for the CPU got a tensor of a GPU"
        return values

    def agree(self, control_word: tuple[int, int]) -> tuple[int, int]:
        return control_word

    def maximum(self, numbers: Sequence[int]) -> list[int]:
        return list(numbers)

    def broadcast_text(self, text: str) -> str:
        if not self.tells_shapes:
            return text
        self._calls += 1
        if text:
            self.told[self._calls] = text
        # A later stage has not run yet: its shapes concern others.
        return text or self.told.get(self._calls) or self.told[max(self.told)]

    def close(self) -> None:
        distributed.destroy_process_group()


def _build(defaults: ModuleType, model: Any, batch: Any) -> None:
    with _disable_current_modes():
        build(defaults, model, batch)


def _stage_signatures(stage: Any, example: Any, rank: Any, precision: Any) -> Any:
    rank.group.tells_shapes = True
    try:
        return stage_signature.stage_signatures(stage, example, rank, precision)
    finally:
        rank.group.tells_shapes = False


class Session:
    """What the trainer needs of its session."""

    def __init__(self, trial: Trial, strategy: TorchStrategy, spec: RunSpec) -> None:
        plans = strategy.pool(spec.slots)
        self.rank, self.world_size, self.spec = trial.rank, len(plans), spec
        self.asked_accumulation = spec.accumulation
        self.folder = Path("unused")
        self.plan = plans[trial.rank]
        self.devices, self.machine_devices = self.plan.devices, spec.devices
        self.recipe = read_recipe(Path(spec.recipe))

    def emit(self, event: Any) -> None:
        """Do nothing."""

    load = emit

    def connecting(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def load_recipe(self) -> ModuleType:
        spec = importlib.util.spec_from_file_location("user_recipe", self.spec.recipe)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["user_recipe"] = module
        if "keras" in sys.modules:  # the trial before may have left a seed generator
            sys.modules["keras"].src.backend.common.global_state.clear_session(free_memory=False)
        with _disable_current_modes():
            spec.loader.exec_module(module)
        gc.freeze()  # as the real one does
        return module

    def settings_for(self, function: Any) -> dict[str, Any]:
        names = inspect.signature(function).parameters
        return {name: value for name, value in self.spec.settings.items() if name in names}


@contextlib.contextmanager
def trainer_of(trial: Trial) -> Iterator[tuple[Any, Observer]]:
    """Build the trainer of a trial."""
    recipe = str(Path(__file__).with_name(f"recipe_{trial.recipe}.py"))
    spec = msgspec.convert(
        {
            "recipe": recipe,
            "strategy": trial.strategy,
            "devices": [f"GPU-{number}" for number in range(trial.gpus)],
            "batch_size": 64,
            "settings": trial.settings,
            "precision": trial.precision,
            "clip_norm": trial.clip_norm,
            "accumulation": trial.accumulation,
            **trial.fields,
        },
        RunSpec,
        strict=False,
    )
    strategy: Any = catalog.strategy(spec.strategy, read_recipe(Path(recipe)))
    make_mesh = torch.distributed.device_mesh.init_device_mesh

    def real_mesh(*args: Any, **options: Any) -> Any:
        with _disable_current_modes():  # a mesh is numbers, which have to be real
            return make_mesh(*args, **options)

    with contextlib.ExitStack() as stack:
        observer = stack.enter_context(imagined_gpus())
        Replica.made.clear()
        for name, new in {
            "engine.pytorch.trainer.ProcessGroup": AgreeingRanks,
            "engine.pytorch.probes.trial.shared_tensors": lambda model: (
                [],
                [],
            ),  # compares addresses
            # It writes values of the host, which fake tensors do not have.
            "engine.pytorch.state.training_state.save_rank_state": lambda *_: None,
            "engine.pytorch.recipe.from_file._build": _build,
            "engine.pytorch.parallelism.pipeline.stage_signatures": _stage_signatures,
            "torch.nn.parallel.DistributedDataParallel": Replica,
            "torch.distributed.device_mesh.init_device_mesh": real_mesh,
        }.items():
            stack.enter_context(mock.patch(name, new))
        for name, attribute, new in (
            ("engine.pytorch.parallelism.ddp", "DistributedDataParallel", Replica),
            ("engine.pytorch.parallelism.fsdp", "init_device_mesh", real_mesh),
        ):
            if name in sys.modules:
                stack.enter_context(mock.patch.object(sys.modules[name], attribute, new))
        stack.callback(_leave_group)
        session: Any = Session(trial, strategy, spec)
        yield trainer_module.TorchTrainer(session, strategy), observer


def _leave_group() -> None:
    if distributed.is_initialized():
        distributed.destroy_process_group()


def run(trial: Trial) -> Found:
    """Run a trial."""
    with trainer_of(trial) as (trainer, observer):
        found = Found()
        trainer.run_steps(Position(0, 0, 0), 1).read()  # the optimizer makes its state
        trainer.run_steps(Position(0, 1, 1), 1).read()  # and a checkpoint is tried
        observer.taken_waits()
        trainer.run_steps(Position(0, 2, 2), 1).read()
        short = observer.taken_waits()
        done = trainer.run_steps(Position(0, 3, 3), 2)
        begun = observer.taken_waits()
        done.read()
        found.per_read = observer.taken_waits()
        short = {k: n for k, n in short.items() if k not in found.per_read}
        found.per_step, found.per_chunk = _divided(short, begun)
        found.computed_in = sorted(
            {str(dtype).removeprefix("torch.") for _, dtype in observer.computed_in}
        )
        trainer.begin_validation()
        observer.taken_waits()
        trainer.validate(0, 1)  # a pipeline makes its schedule
        observer.taken_waits()
        trainer.validate(1, 1)
        short = observer.taken_waits()
        trainer.validate(2, 2)
        found.per_batch, found.per_validation = _divided(short, observer.taken_waits())
        trainer.end_validation()
        trainer.rank_metrics()
        found.shares_buckets = all(options["gradient_as_bucket_view"] for options in Replica.made)
        with tempfile.TemporaryDirectory() as folder:
            pinned = observer.pinned_by_copies
            Path(folder, "tensors").mkdir()
            trainer.save(Path(folder))
            found.pinned = observer.pinned_by_copies - pinned
        found.before = sum(observer.device_memory().values())
        trainer.free_devices()
        found.left = observer.device_memory()
        try:
            trainer.restore_devices()
            trainer.run_steps(Position(0, 5, 5), 1).read()
        except Exception as error:
            found.error = f"after the pause: {type(error).__name__}: {error}"
        return found


def _divided(one: dict[str, int], two: dict[str, int]) -> tuple[dict[str, int], dict[str, int]]:
    """Return the waits of each step, and those of each chunk, from chunks of 1 and of 2 steps."""
    each = {what: count - one.get(what, 0) for what, count in two.items()}
    once = {what: count - each.get(what, 0) for what, count in one.items()}
    return {k: n for k, n in each.items() if n}, {k: n for k, n in once.items() if n}
