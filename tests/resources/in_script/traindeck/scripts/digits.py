"""A script of the shape of PyTorch's MNIST example, with calls: dropout, scheduler, validation."""

import sys

import numpy as np
import torch
import traindeck
from torch import nn
from torch.nn import functional
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset

OPTIONS = dict(word.split("=") for word in sys.argv[1:])
EPOCHS = int(OPTIONS.get("epochs", 3))
SAMPLES = int(OPTIONS.get("samples", 70))


class Noisy(TensorDataset):
    """Draws while a sample is fetched, as augmentation does."""

    def __getitem__(self, index):
        inputs, target = super().__getitem__(index)
        if "noise" in OPTIONS:
            inputs = inputs + 0.1 * torch.randn_like(inputs) + 0.1 * np.random.rand()
        return inputs, target


def data(seed, count):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(count, 8, generator=generator)
    return Noisy(inputs, (inputs.sum(1) > 0).long())


def main():
    torch.manual_seed(int(OPTIONS.get("seed", 1)))
    torch.set_num_threads(1)
    loader = DataLoader(
        data(0, SAMPLES),
        batch_size=16,
        shuffle=True,
        num_workers=int(OPTIONS.get("workers", 0)),
        persistent_workers="persistent" in OPTIONS,
    )
    validation = DataLoader(data(1, 40), batch_size=16)
    dropout = float(OPTIONS.get("dropout", 0.25))
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(dropout), nn.Linear(16, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    scheduler = StepLR(optimizer, step_size=1, gamma=0.7)
    best = {"accuracy": 0.0}
    traindeck.keep(model=model, optimizer=optimizer, scheduler=scheduler, best=best)
    for epoch in traindeck.epochs(EPOCHS):
        model.train()
        for inputs, targets in traindeck.batches(loader):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(inputs), targets)
            loss.backward()
            optimizer.step()
            traindeck.log(loss=loss, lr=scheduler.get_last_lr()[0])
            print(f"loss {epoch} {loss.item()!r}", flush=True)
        model.eval()
        right = 0
        with torch.no_grad():
            for inputs, targets in traindeck.batches(validation):
                right += (model(inputs).argmax(1) == targets).sum().item()
        best["accuracy"] = max(best["accuracy"], right / 40)
        traindeck.log(val_accuracy=right / 40)
        scheduler.step()
    sums = [float(parameter.detach().sum()) for parameter in model.parameters()]
    print("end", *(s.hex() for s in sums), best, optimizer.param_groups[0]["lr"], flush=True)


main()
