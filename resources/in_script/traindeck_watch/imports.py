"""Patches a library when the script imports it; imports nothing by itself."""

from __future__ import annotations

import importlib
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.abc import Loader

    from traindeck_watch.watch import Watch

_OWN = ("traindeck", "traindeck_watch")

PATCHES: dict[str, tuple[str, str]] = {
    "torch": ("pytorch", "patch_torch"),
    "torch.amp.grad_scaler": ("pytorch", "patch_grad_scaler"),
    "torch.cuda.amp.grad_scaler": ("pytorch", "patch_grad_scaler"),
    "torch.cuda.graphs": ("pytorch", "patch_graphs"),
    "torch.utils.data.dataloader": ("pytorch", "patch_data_loader"),
    "safetensors.torch": ("pytorch", "patch_safetensors"),
    "torch.utils.tensorboard.writer": ("loggers.hooks", "patch_tensorboard"),
    "tensorboardX.writer": ("loggers.hooks", "patch_tensorboard"),
    "tensorboard.plugins.scalar.summary_v2": ("loggers.hooks", "patch_tf_scalar"),
    "tensorboard.plugins.image.summary_v2": ("loggers.hooks", "patch_tf_image"),
    "tensorboard.plugins.histogram.summary_v2": ("loggers.hooks", "patch_tf_histogram"),
    "wandb": ("loggers.wandb_logger", "patch_wandb"),
    "wandb.sdk.wandb_run": ("loggers.wandb_logger", "patch_run"),
    "wandb.sdk.wandb_summary": ("loggers.wandb_logger", "patch_summary"),
    "trackio.run": ("loggers.hooks", "patch_trackio"),
    "mlflow.tracking.fluent": ("loggers.hooks", "patch_mlflow"),
    "mlflow.tracking.client": ("loggers.hooks", "patch_mlflow_client"),
    "aim.sdk.run": ("loggers.hooks", "patch_aim"),
    "stable_baselines3.common.logger": ("loggers.hooks", "patch_stable_baselines"),
    "lightning.pytorch.trainer.trainer": ("trainers", "patch_lightning"),
    "pytorch_lightning.trainer.trainer": ("trainers", "patch_lightning"),
    "lightning.pytorch.trainer.connectors.logger_connector.logger_connector": (
        "trainers",
        "patch_lightning_logs",
    ),
    "pytorch_lightning.trainer.connectors.logger_connector.logger_connector": (
        "trainers",
        "patch_lightning_logs",
    ),
    "transformers.trainer_callback": ("trainers", "patch_transformers"),
    "transformers.trainer": ("trainers", "patch_transformers_files"),
    "accelerate.accelerator": ("trainers", "patch_accelerate"),
    "xgboost": ("boosting", "patch_xgboost"),
    "lightgbm": ("boosting", "patch_lightgbm"),
    "catboost": ("boosting", "patch_catboost"),
    "sklearn.base": ("scikit_learn", "patch_base"),
    "keras": ("keras_training", "patch_keras"),
    "tf_keras": ("keras_training", "patch_keras"),
    "tensorflow": ("tensorflow_loops", "patch_tensorflow"),
    "tensorflow.python.eager.polymorphic_function.polymorphic_function": (
        "tensorflow_loops",
        "patch_function",
    ),
}
"""Module -> module and function of ours that patch it, after it has run."""


class Imports:
    """Stands first among Python's finders; nearly every name costs one look into a table.

    It has no base class: `importlib.abc` would load `random`, `tempfile` and others first.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.watch: Watch | None = None

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find our own packages; wrap the loader of a module that we patch."""
        if fullname in _OWN:
            return importlib.machinery.PathFinder.find_spec(fullname, [self._folder])
        if self.watch is None:
            return None
        if fullname in PATCHES:
            spec = self._from_others(fullname, path, target)
            if spec is not None and spec.loader is not None:
                self._wrap(fullname, spec.loader)
                return spec
        if fullname in _DOUBLED:
            from traindeck_watch.loggers import doubles

            if self._from_others(fullname, path, target) is None:
                return doubles.spec_of(fullname, self.watch)
        return None

    def patch_what_is_loaded(self) -> None:
        """Patch what the user's own `sitecustomize` or a `.pth` file has imported already."""
        for name in PATCHES:
            module = sys.modules.get(name)
            if module is not None:
                self._patch(name, module)

    def _from_others(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> importlib.machinery.ModuleSpec | None:
        for finder in sys.meta_path:
            find: Callable[..., Any] | None = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec = find(fullname, path, target)
            if spec is not None:
                return spec  # type: ignore[no-any-return]
        return None

    def _wrap(self, name: str, loader: Loader) -> None:
        run = getattr(loader, "exec_module", None)
        if run is None:
            return

        def exec_module(module: ModuleType) -> None:
            vars(loader).pop("exec_module", None)  # the loader looks as it did
            run(module)
            self._patch(name, module)

        try:
            loader.exec_module = exec_module  # type: ignore[method-assign]
        except AttributeError:
            assert self.watch is not None
            self.watch.notice(f"{name} could not be watched: its loader cannot be wrapped.")

    def _patch(self, name: str, module: ModuleType) -> None:
        watch = self.watch
        assert watch is not None
        if vars(module).get("_traindeck_patched"):
            return
        own, function = PATCHES[name]
        try:
            ours = importlib.import_module(f"traindeck_watch.{own}")
            getattr(ours, function)(module, watch)
        except Exception as error:
            watch.notice(f"{name} could not be watched: {type(error).__name__}: {error}")


_DOUBLED = ("wandb", "trackio")
