"""The base of every PyTorch strategy: its description, and how its workers use a model."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from engine.spec.device_names import all_on_cpu
from engine.spec.run_spec import RunSpec
from engine.spec.strategy import Strategy, WorkerPlan, one_process, one_process_per_device

if TYPE_CHECKING:
    import torch
    from torch import nn

    from engine.pytorch.parallel import Parallel, Rank

RecipeStages = Callable[[Any, int], Sequence[Any]]
"""A recipe's `stages(model, count)`."""


class TorchStrategy(Strategy):
    """A strategy whose workers run PyTorch."""

    recipe_frameworks: ClassVar[frozenset[str]] = frozenset({"torch"})
    can_free_devices = True

    @abstractmethod
    def wrap_model(self, model: nn.Module, rank: Rank, stages: RecipeStages | None) -> Parallel:
        """Return this rank's part of `model`, moved to its devices; all ranks must call it.

        `model` is on the CPU and the same on all ranks. `stages` is that of the recipe, or None.
        """

    def prepare(self, recipe: Path) -> None:
        """Import slow packages before the recipe does, in the form that this strategy needs."""
        return

    def build(self, model: nn.Module, inputs: Any) -> None:
        """Create the parameters of `model`, in place, whose shapes depend on its `inputs`.

        `inputs` are those of a batch of one sample, on the CPU.
        """
        from engine.pytorch.defaults import build_lazy

        build_lazy(model, inputs)

    def default_loss(self) -> Callable[[Any, Any], Any]:
        """Return the loss for a recipe without a `loss`."""
        from engine.pytorch.defaults import loss

        return loss

    def default_optimizer(self) -> Callable[[Any, float], Any]:
        """Return the `optimizer` function for a recipe without one."""
        from engine.pytorch.defaults import optimizer

        return optimizer

    def optimizer_inputs(self, parallel: Parallel) -> Any:
        """Return the parameters for the recipe's `optimizer(parameters, learning_rate)`."""
        return parallel.parameters()

    def as_torch_optimizer(self, optimizer: Any, parallel: Parallel) -> torch.optim.Optimizer:
        """Return what the recipe's `optimizer` made as an optimizer of PyTorch."""
        result: torch.optim.Optimizer = optimizer
        return result

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
