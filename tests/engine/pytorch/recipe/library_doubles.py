"""Doubles of classes of Lightning and of Hugging Face, with the names that the product knows.

They have the methods of the real ones that a recipe reaches, and no more.
"""

from __future__ import annotations

from typing import Any

from torch import nn


class LightningModule(nn.Module):
    """The double of `lightning.pytorch.LightningModule`."""

    automatic_optimization = True
    trainer: Any = None

    def log(self, name: str, value: Any, **options: Any) -> None:
        raise AssertionError("the product replaces it")

    def training_step(self, batch: Any, batch_idx: int) -> Any: ...

    def validation_step(self, batch: Any, batch_idx: int) -> Any: ...

    def configure_optimizers(self) -> Any: ...

    def prepare_data(self) -> None:
        return

    def setup(self, stage: str) -> None:
        return

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> int | None: ...

    def on_validation_batch_start(self, batch: Any, batch_idx: int, dataloader_idx: int) -> None:
        return

    def on_validation_batch_end(self, out: Any, batch: Any, batch_idx: int, loader: int) -> None:
        return

    def on_after_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        return batch

    def optimizer_step(self, *arguments: Any) -> None: ...

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None: ...


def _nothing(self: LightningModule) -> None:
    return None


for _hook in (
    "configure_model",
    "on_fit_start",
    "on_train_start",
    "on_train_epoch_start",
    "on_train_epoch_end",
    "on_validation_start",
    "on_validation_end",
    "on_validation_epoch_start",
    "on_validation_epoch_end",
    "on_train_end",
):
    setattr(LightningModule, _hook, _nothing)
LightningModule.__module__ = "lightning.pytorch.core.module"


class PreTrainedModel(nn.Module):
    """The double of `transformers.PreTrainedModel`."""


PreTrainedModel.__module__ = "transformers.modeling_utils"
