"""The kinds of templates: what each imports, and the environment that its workers share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from engine.processes.process import PROJECT

_STRATEGIES = tuple(
    ".".join(file.relative_to(PROJECT).with_suffix("").parts)
    for file in sorted((PROJECT / "engine").glob("*/strategies/[!_]*.py"))
)
"""The modules that `engine.spec.catalog` imports in each worker."""

_COMMON_MODULES = (
    *("engine.runs.checkpoints.checkpoint_files", "engine.spec.spec_file", "engine.training.loop"),
    *("engine.worker.debugger", "engine.worker.failure_report", "engine.worker.session"),
    *("engine.worker.optional_imports", *_STRATEGIES),
)
"""What a worker imports besides its framework."""

_LAST_MODULES = ("sklearn.datasets", "sklearn.model_selection")
"""What the built-in recipes use. It finds the frameworks that are there already."""

_TORCH_MODULES = (
    *("torch", "engine.pytorch.trainer", "engine.pytorch.recipe.defaults"),
    *("engine.pytorch.parallelism.ddp", "torch.distributed", "torch.utils.data"),
    *("engine.pytorch.parallelism.model_parallel", "safetensors.torch"),
)
_KERAS_MODULES = ("keras", "engine.pytorch.parallelism.keras_model")
_TENSORFLOW_MODULES = (
    *("tensorflow", "engine.tf.entry", "engine.tf.trainer", "engine.tf.parallel"),
    *("engine.tf.parallelism.multi_worker", "engine.tf.parallelism.ps_coordinator"),
    "engine.tf.parallelism.ps_task",
)


class TemplateKind(NamedTuple):
    """One kind of template."""

    name: str
    """`torch`, `tensorflow` or `keras-torch`, as in file names and messages."""

    title: str
    """The name for the user, such as `PyTorch`."""

    modules: tuple[str, ...]
    """The modules that it imports before it forks, in order."""

    environment: dict[str, str]
    """Variables that all its workers share, because they are read when the modules are imported."""

    after_fork: str
    """`module:function`, called in a new worker with its environment; it sets what the modules read
    from other variables when they were imported."""

    shown: str = "engine.templates.kinds:everything"
    """`module:function`, called in a new worker with what the imports have printed and with its
    environment; it returns the part that a cold worker would show."""

    program: str = "engine.templates"
    """The module that runs the template, with its name as the argument."""


def everything(printed: str, environment: Mapping[str, str]) -> str:
    """Return what the imports have printed."""
    return printed


KINDS: Mapping[str, TemplateKind] = {
    kind.name: kind
    for kind in (
        TemplateKind(
            "torch",
            "PyTorch",
            (*_COMMON_MODULES, *_TORCH_MODULES, *_LAST_MODULES),
            {"KERAS_BACKEND": "torch"},
            "engine.pytorch.after_fork:set_up",
        ),
        TemplateKind(
            "keras-torch",
            "Keras on PyTorch",
            (*_COMMON_MODULES, *_TORCH_MODULES, *_KERAS_MODULES, *_LAST_MODULES),
            {"KERAS_BACKEND": "torch"},
            "engine.pytorch.after_fork:set_up",
        ),
        TemplateKind(
            "tensorflow",
            "TensorFlow",
            (*_COMMON_MODULES, *_TENSORFLOW_MODULES, *_LAST_MODULES),
            {"KERAS_BACKEND": "tensorflow"},
            "engine.tf.after_fork:set_up",
            "engine.tf.entry:shown_of_imports",
        ),
    )
}

SHARED_ENVIRONMENT = {
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    "TF_CPP_MIN_LOG_LEVEL": "1",
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    "PYTHONUNBUFFERED": "1",
}
"""Variables that all workers of all kinds share."""


def kind_for(framework: str, recipe_framework: str) -> TemplateKind:
    """Return the kind for a strategy's framework, `torch` or `tf`, and a recipe's."""
    if framework == "tf":
        return KINDS["tensorflow"]
    return KINDS["keras-torch" if recipe_framework == "keras" else "torch"]
