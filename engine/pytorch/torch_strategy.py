"""The base class of the PyTorch strategies."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar

from engine.spec.device_names import all_on_cpu
from engine.spec.run_spec import RunSpec
from engine.spec.strategy import Strategy, WorkerPlan, one_process, one_process_per_device

if TYPE_CHECKING:
    from torch import nn

    from engine.pytorch.parallel import Parallel, Rank
    from engine.pytorch.recipe.torch_recipe import TorchRecipe


class TorchStrategy(Strategy):
    """A strategy whose workers run PyTorch."""

    recipe_frameworks: ClassVar[frozenset[str]] = frozenset({"torch"})
    can_free_devices = True

    @abstractmethod
    def wrap_model(self, model: nn.Module, rank: Rank, recipe: TorchRecipe) -> Parallel:
        """Return this rank's part of `model`, moved to its devices; all ranks must call it.

        `model` is on the CPU and equal on all ranks.
        """

    def defaults(self, recipe: Path) -> ModuleType:
        """Import and return the module with the defaults for functions that a recipe leaves out.

        It has `loss`, `optimizer` and `build(model, inputs)`. `build` creates the parameters whose
        shapes depend on the inputs (one sample, on the CPU). Called before `recipe` is imported,
        because the strategy decides how slow packages are imported.
        """
        from engine.pytorch.recipe import defaults

        return defaults

    def refusal(self, field: str, spec: RunSpec) -> str:
        match field:
            case "microbatches":
                return "Only torch/pipeline divides a batch into micro-batches."
            case "cross_device":
                return "It is an option of TensorFlow: PyTorch has the option backend."
            case "memory_limit_mib":
                return "Only TensorFlow can limit the GPU memory of a worker."
            case _:
                return super().refusal(field, spec)


class OneProcess(TorchStrategy):
    """A PyTorch strategy with one worker for all devices."""

    refusals = {
        "backend": "There is one process: no ranks exchange anything.",
        "workers_per_device": "There is one process: choose a strategy with one per device, "
        "such as torch/ddp.",
    }

    def pool(self, devices: Sequence[str]) -> tuple[WorkerPlan, ...]:
        return one_process(devices)


class ProcessPerDevice(TorchStrategy):
    """A PyTorch strategy whose ranks exchange gradients or activations."""

    needs = "1 or more devices of one kind"
    spans_machines = True

    def pool(self, devices: Sequence[str]) -> tuple[WorkerPlan, ...]:
        return one_process_per_device(devices)

    def refusal(self, field: str, spec: RunSpec) -> str:
        on_cpu = all_on_cpu(spec.devices)
        if field == "backend" and spec.backend == "nccl":
            if on_cpu:
                return "nccl connects NVIDIA GPUs: on CPUs choose gloo or auto."
            if spec.workers_per_device > 1:
                return "nccl allows one rank per GPU: choose gloo or auto to split a GPU."
        return super().refusal(field, spec)
