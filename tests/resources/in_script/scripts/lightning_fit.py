"""A LightningModule and its Trainer."""

import sys

import lightning
import torch
from torch import nn


class Regression(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 1)

    def training_step(self, batch, number):
        loss = nn.functional.mse_loss(self.net(batch[0]), batch[1])
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, number):
        self.log("val_loss", nn.functional.mse_loss(self.net(batch[0]), batch[1]))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)


lightning.seed_everything(0)
inputs = torch.randn(64, 4)
data = torch.utils.data.TensorDataset(inputs, inputs.sum(1, keepdim=True))
trainer = lightning.Trainer(
    max_epochs=int(sys.argv[1]),
    accelerator="cpu",
    devices=1,
    log_every_n_steps=1,
    enable_progress_bar=False,
    default_root_dir="lightning",
)
loader = torch.utils.data.DataLoader(data, 8)
trainer.fit(Regression(), loader, loader)
print("ended after", trainer.global_step)
