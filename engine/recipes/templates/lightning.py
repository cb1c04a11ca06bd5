"""A recipe with a LightningModule: its training_step, validation_step and optimizer train.

Needs Lightning beside Traindeck: `pip install lightning`. What a module cannot have here, such as
manual optimization or callbacks, is refused by name before the training starts.
"""

import lightning
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

# Defaults of the form. The batch size is the global batch: samples per step over all devices.
DEFAULTS = {"epochs": 10, "batch_size": 64, "learning_rate": 0.001}


class Classifier(lightning.LightningModule):
    """Your module, as you wrote it for the Trainer of Lightning."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(), nn.Linear(64, width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(width, 10)
        )

    def training_step(self, batch, batch_idx):
        images, targets = batch
        outputs = self.layers(images)
        loss = nn.functional.cross_entropy(outputs, targets)
        # Everything that is logged is a curve.
        self.log("train_accuracy", (outputs.argmax(1) == targets).float().mean())
        return loss

    def validation_step(self, batch, batch_idx):
        images, targets = batch
        outputs = self.layers(images)
        self.log("val_loss", nn.functional.cross_entropy(outputs, targets))
        self.log("val_accuracy", (outputs.argmax(1) == targets).float().mean())

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.001)
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=2)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "monitor": "val_loss"},
        }


class Digits(lightning.LightningDataModule):
    """Your data, as you wrote it. A pair of DataLoaders or of Datasets works, too."""

    def setup(self, stage: str) -> None:
        digits = load_digits()
        images = torch.tensor(digits.images, dtype=torch.float32) / 16
        targets = torch.tensor(digits.target)
        self.train = TensorDataset(images[:1500], targets[:1500])
        self.validation = TensorDataset(images[1500:], targets[1500:])

    def train_dataloader(self) -> DataLoader:
        return DataLoader(self.train, batch_size=64, shuffle=True)

    def val_dataloader(self) -> DataLoader:
        return DataLoader(self.validation, batch_size=64)


# Keyword arguments with a default are fields of the form.
def model(width: int = 64, dropout: float = 0.1) -> Classifier:
    return Classifier(width, dropout)


def datasets() -> Digits:
    return Digits()
