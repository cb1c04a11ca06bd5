"""Loops of several shapes with calls; the first argument chooses one."""

import random
import sys

import torch
import traindeck
from torch import nn
from torch.utils import data

SHAPE = sys.argv[1]
torch.manual_seed(3)
random.seed(3)
torch.set_num_threads(1)
inputs = torch.randn(40, 4)
samples = data.TensorDataset(inputs, inputs.sum(1, keepdim=True))


class Shuffled(data.Sampler):
    """Draws lazily, from the random numbers of the process."""

    def __iter__(self):
        return (random.randrange(40) for _ in range(40))

    def __len__(self):
        return 40


class Stream(data.IterableDataset):
    """Draws in the order in which it is read."""

    def __iter__(self):
        for x, y in samples:
            yield x + 0.1 * torch.randn(4) * random.random(), y


def make_loader():
    if SHAPE == "weighted":
        generator = torch.Generator().manual_seed(5)
        sampler = data.WeightedRandomSampler([1.0] * 20 + [3.0] * 20, 40, generator=generator)
        return data.DataLoader(samples, batch_size=8, sampler=sampler, drop_last=True)
    if SHAPE == "sampler":
        batches = data.BatchSampler(Shuffled(), 8, drop_last=False)
        return data.DataLoader(samples, batch_sampler=batches)
    if SHAPE == "stream":
        return data.DataLoader(Stream(), batch_size=8)
    return data.DataLoader(samples, batch_size=8, shuffle=True)


loader = make_loader()
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.1), nn.Linear(8, 1))
critic = nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
critics = torch.optim.Adam(critic.parameters())
traindeck.keep(model=model, critic=critic, optimizer=optimizer, critics=critics)


def train(batch, number=0):
    x, y = batch
    loss = (model(x) - y).square().mean()
    if SHAPE == "accumulate":
        (loss / 2).backward()
        if number % 2 == 1:
            optimizer.step()
            optimizer.zero_grad()
    elif SHAPE == "gan":
        critics.zero_grad()
        (critic(y).mean() - critic(model(x).detach()).mean()).backward()
        critics.step()
        optimizer.zero_grad()
        (loss - 0.1 * critic(model(x)).mean()).backward()
        optimizer.step()
    else:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("loss", loss.item().hex(), flush=True)


def endless(of):
    while True:
        yield from traindeck.batches(of)


other = data.DataLoader(samples, batch_size=8, shuffle=True)
if SHAPE == "steps":
    stream = endless(loader)
    for _step in traindeck.steps(15):
        train(next(stream))
elif SHAPE == "break in the last body":
    stream = endless(loader)
    for step in traindeck.steps(1000):
        train(next(stream))
        if step == 3:
            break
elif SHAPE == "no epochs":
    for _epoch in range(3):
        for batch in traindeck.batches(loader):
            train(batch)
else:
    for _epoch in traindeck.epochs(3):
        if SHAPE == "zip":
            for batch, (x, y) in zip(traindeck.batches(loader), traindeck.batches(other)):  # noqa: B905
                train((batch[0] + x, batch[1] + y))
        elif SHAPE == "nested":
            for batch in traindeck.batches(loader):
                for x, y in traindeck.batches(other):
                    batch = (batch[0] + 0.1 * x, batch[1] + y)
                train(batch)
        elif SHAPE == "break":
            for number, batch in traindeck.batches(loader, numbered=True):
                if number >= 3:
                    break
                train(batch)
            for batch in traindeck.batches(other):
                train(batch)
        else:
            for number, batch in traindeck.batches(loader, numbered=True):
                train(batch, number)
print("end", *(p.detach().sum().item().hex() for p in model.parameters()))
