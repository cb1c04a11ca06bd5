"""A LightningModule; as a program, it is trained by the Trainer of Lightning and prints its losses.

An epoch is one batch, so that both train on the same one in each step.
"""

import json
import sys
import warnings
from typing import Any

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

DEFAULTS = {"epochs": 6, "batch_size": 64, "learning_rate": 0.5}


class Regression(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.layer = nn.Linear(3, 1)
        with torch.no_grad():
            self.layer.weight.copy_(torch.randn(1, 3, generator=generator))
            self.layer.bias.zero_()
        self.losses: list[float] = []

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        inputs, targets = batch
        loss = nn.functional.mse_loss(self.layer(inputs), targets)
        self.log("train_size", float(len(inputs)))
        self.losses.append(float(loss.detach()))
        return loss

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        inputs, targets = batch
        self.log("val_loss", nn.functional.mse_loss(self.layer(inputs), targets))

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), 0.1, momentum=0.9)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
        return [optimizer], [scheduler]


class Data(lightning.LightningDataModule):
    def setup(self, stage: str) -> None:
        generator = torch.Generator().manual_seed(2)
        inputs = torch.randn(64, 3, generator=generator)
        self.data = TensorDataset(inputs, inputs.sum(1, keepdim=True))

    def train_dataloader(self) -> DataLoader[Any]:
        return DataLoader(self.data, batch_size=64)

    def val_dataloader(self) -> DataLoader[Any]:
        return DataLoader(self.data, batch_size=64)


def model() -> Regression:
    return Regression()


def datasets() -> Data:
    return Data()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    module = Regression()
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_epochs=DEFAULTS["epochs"],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        default_root_dir=sys.argv[1],
    )
    trainer.fit(module, Data())
    metric = float(trainer.callback_metrics["val_loss"])
    print(json.dumps({"train/loss": module.losses, "validation/loss": metric}))
