"""`torch/fsdp`: fully sharded data parallel (FSDP2), one process per device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.pytorch.torch_strategy import ProcessPerDevice
from engine.spec.device_names import all_on_cpu
from engine.spec.run_spec import RunSpec

if TYPE_CHECKING:
    from torch import nn

    from engine.pytorch.parallel import Parallel, Rank
    from engine.pytorch.recipe.torch_recipe import TorchRecipe


class FullyShardedDataParallel(ProcessPerDevice):
    """Parameters, gradients and optimizer state are sharded over the ranks."""

    name = "torch/fsdp"
    title = "FSDP2"
    summary = (
        "Fully sharded data parallel: one process per device, each with a shard of parameters, "
        "gradients and optimizer state: "
        "for models whose training does not fit on one device. Needs more communication than DDP."
    )

    def refusal(self, field: str, spec: RunSpec) -> str:
        on_gpu = not all_on_cpu(spec.devices)
        if on_gpu and (field, spec.backend) == ("backend", "gloo"):
            return "gloo cannot gather shards on GPUs: choose nccl or auto."
        if on_gpu and field == "workers_per_device":
            return "Splitting a GPU needs gloo, which cannot gather shards on GPUs: use torch/ddp."
        return super().refusal(field, spec)

    def wrap_model(self, model: nn.Module, rank: Rank, recipe: TorchRecipe) -> Parallel:
        from engine.pytorch.parallelism.fsdp import FSDPModel

        return FSDPModel(model, rank, has_step=recipe.calls_model)


strategy = FullyShardedDataParallel()
