"""Unusual ways to train, one after the other: each in a forked child, the last one here."""

import contextlib
import os
import sys
import time
from pathlib import Path

import torch
import torch._dynamo  # optimizers import it, which takes seconds: once for all children
from torch import nn
from torch.utils.checkpoint import checkpoint as checkpoint_of

inputs = torch.linspace(-1, 1, 32).reshape(8, 4)
targets = inputs.sum(1, keepdim=True)


def loss_of(model):
    return nn.functional.mse_loss(model(inputs), targets)


def lbfgs():
    model = nn.Linear(4, 1)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1)
    for _ in range(4):
        seen = []

        def closure(seen=seen):
            optimizer.zero_grad()
            loss = loss_of(model)
            loss.backward()
            seen.append(loss.item())
            return loss

        optimizer.step(closure)
        yield seen[0]


def scaled():
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for step in range(4):
        optimizer.zero_grad()
        for _ in range(2):  # two parts are accumulated
            loss = loss_of(model) / 2
            part = loss * float("inf") if step == 2 else loss
            scaler.scale(part).backward()
        scaler.step(optimizer)
        scaler.update()
        if step != 2:  # the scaler skipped it
            yield 2 * loss.item()


def sparse():
    model = nn.EmbeddingBag(4, 1, sparse=True, mode="sum")
    optimizer = torch.optim.SparseAdam(model.parameters())
    for _ in range(4):
        optimizer.zero_grad()
        loss = model(torch.tensor([[0, 1]])).square().mean()
        loss.backward()
        optimizer.step()
        yield loss.item()


def extended():
    class Extended(torch.optim.SGD):
        def step(self, closure=None):
            return super().step(closure)

    torch.optim.SGD([nn.Parameter(torch.ones(1))])  # so that the inner step has hooks, too
    model = nn.Linear(4, 1)
    for _ in range(2):  # a new optimizer for each epoch
        optimizer = Extended(model.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            loss = loss_of(model)
            loss.backward()
            yield loss.item()
            loss.detach().zero_()
            optimizer.step()


def raising():
    """The inner of two steps raises once, and the script goes on."""

    class Extended(torch.optim.SGD):
        def step(self, closure=None):
            return super().step(closure)

    torch.optim.SGD([nn.Parameter(torch.ones(1))])
    model = nn.Linear(4, 1)
    optimizer = Extended(model.parameters(), lr=0.1)
    for step in range(4):
        optimizer.zero_grad()
        if step == 1:
            with contextlib.suppress(ZeroDivisionError):
                optimizer.step(lambda: 1 / 0)
        loss = loss_of(model)
        loss.backward()
        yield loss.item()
        optimizer.step()


def attacked():
    """The gradients of an attack on the inputs are thrown away before the loss."""
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        changed = inputs.clone().requires_grad_()
        model(changed).square().sum().backward()
        (model if step % 2 else optimizer).zero_grad()
        loss = nn.functional.mse_loss(model(inputs + changed.grad), targets)
        loss.backward()
        optimizer.step()
        yield loss.item()


def vector():
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        optimizer.zero_grad()
        losses = model(inputs).square().mean(0)
        torch.autograd.backward([losses[0]], retain_graph=True)
        losses.backward(torch.ones(2))
        optimizer.step()
        yield losses[0].item() + losses.sum().item()


def weighted():
    """Losses with a gradient of their own, as in the first Wasserstein GANs; or for each sample."""
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        optimizer.zero_grad()
        if step % 2:
            errors = (model(inputs) - targets).square()
            errors.backward(torch.full_like(errors, 0.5))
            yield (0.5 * errors).sum().item()
        else:
            real, fake = model(inputs).mean(), model(-inputs).mean()
            real.backward(torch.tensor(1.0))
            fake.backward(gradient=torch.tensor(-1.0))
            yield real.item() - fake.item()
        optimizer.step()


def checkpointed():
    """The recomputed part calls `backward` within that of the script."""
    model = nn.Linear(4, 1)

    def error_of(given):
        return (model(given) - targets).square().mean()

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        optimizer.zero_grad()
        first = inputs.clone().requires_grad_()
        loss = checkpoint_of(error_of, first, use_reentrant=True)
        loss.backward()
        optimizer.step()
        yield loss.item()


def thrown_away():
    """The script sets the gradients to None itself."""
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        if step:
            loss_of(model).mul(7).backward()
        for parameter in model.parameters():
            parameter.grad = None
        loss = loss_of(model)
        loss.backward()
        optimizer.step()
        yield loss.item()


def in_backward():
    """Each parameter has an optimizer, which steps as soon as there is its gradient."""
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 1))
    optimizers = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}

    def step(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step)
    for _ in range(4):
        loss = loss_of(model)
        loss.backward()
        yield loss.item()


def by_hand():
    """Without an optimizer, until it is stopped; it saves into an open file."""
    model = nn.Linear(4, 1)
    free = torch.ones(1, requires_grad=True)
    with Path("own.pt").open("wb") as file:
        torch.save(model.state_dict(), file)
    steps, last = 0, 0.0
    try:
        while True:
            model.zero_grad()
            loss = loss_of(model) + 0 * free.sum()
            loss.backward()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.sub_(0.1 * parameter.grad)
                free.grad = None
                free += 1
            steps, last = steps + 1, loss.item()
            time.sleep(0.001)
    except KeyboardInterrupt:
        yield last
        yield steps + 1


def show(name):
    torch.manual_seed(0)
    print(name, *globals()[name](), flush=True)


for name in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        show(name)
        sys.exit(0)
    os.waitpid(child, 0)
show("by_hand")
