"""`torch/pipeline`: the stages of a model on different devices, one process per device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.pytorch.torch_strategy import ProcessPerDevice
from engine.spec.device_names import all_on_cpu
from engine.spec.run_spec import RunSpec
from engine.spec.strategy import PartitionedStrategy

if TYPE_CHECKING:
    from torch import nn

    from engine.pytorch.parallel import Parallel, Rank
    from engine.pytorch.recipe.torch_recipe import TorchRecipe
    from engine.spec.recipe_file import RecipeInfo


class Pipeline(PartitionedStrategy, ProcessPerDevice):
    """Micro-batches pass through the stages, so that all devices compute at once."""

    name = "torch/pipeline"
    title = "Pipeline (1F1B)"
    summary = (
        "The model is cut into one stage per device, and each batch passes through them in "
        "micro-batches: for models that fit on no single device. Devices exchange activations only."
    )
    needs = "2 or more devices, and a model that can be cut"

    def problems(self, devices: Sequence[str]) -> list[str]:
        if len(devices) < 2:
            return [
                f"{self.name} needs at least 2 devices and {len(devices)} is chosen: choose more, "
                "or the strategy torch/single."
            ]
        return []

    def recipe_problem(self, recipe: RecipeInfo) -> str:
        if problem := super().recipe_problem(recipe):
            return problem
        calls = [name for name in ("step", "validate") if name in recipe.functions]
        if not calls:
            return ""
        return (
            f"{self.name} cuts the model into stages, and no rank has the whole model that "
            f"{calls[0]}() of {recipe.name} calls: choose torch/fsdp or torch/model_parallel, or "
            "define loss(outputs, targets) in its place."
        )

    def refusal(self, field: str, spec: RunSpec) -> str:
        on_gpu = not all_on_cpu(spec.devices)
        match field:
            case "microbatches":
                return ""
            case "precision" if spec.precision == "fp16":
                return (
                    "fp16 multiplies the loss by a scale, on which all stages of a pipeline would "
                    "have to agree at every step: choose bf16."
                )
            case "backend" if on_gpu and spec.backend == "gloo":
                return "gloo cannot send the activations of GPUs: choose nccl or auto."
            case "workers_per_device" if on_gpu:
                return (
                    "Splitting a GPU needs gloo, which cannot send its activations: use more GPUs."
                )
            case _:
                return super().refusal(field, spec)

    def wrap_model(self, model: nn.Module, rank: Rank, recipe: TorchRecipe) -> Parallel:
        from engine.pytorch.parallelism.pipeline import PipelineModel
        from engine.pytorch.parallelism.stages import cut_model, keep_only

        stage = cut_model(model, rank.world_size, recipe.stages)[rank.number]
        keep_only(model, stage)
        return PipelineModel(model, stage, rank)


strategy = Pipeline()
