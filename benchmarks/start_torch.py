"""A small network for `benchmarks.start`: a recipe, and a plain script that trains it.

`torchrun --nproc_per_node=N benchmarks/start_torch.py FILE` and, for one process, `python
benchmarks/start_torch.py FILE` append a line to FILE after the first step.
"""

import os
import sys
from pathlib import Path

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

BATCH_SIZE = 64
LEARNING_RATE = 0.01

Pair = tuple[torch.Tensor, torch.Tensor]


def model() -> nn.Module:
    """A perceptron."""
    return nn.Sequential(nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))


def datasets() -> tuple[Pair, Pair]:
    """Noise: 32 batches."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(32 * BATCH_SIZE, 256, generator=generator)
    targets = torch.randint(0, 10, (len(inputs),), generator=generator)
    return (inputs, targets), (inputs[:BATCH_SIZE], targets[:BATCH_SIZE])


def optimizer(parameters: list[nn.Parameter], learning_rate: float) -> torch.optim.Optimizer:
    """AdamW, as in most scripts."""
    return torch.optim.AdamW(parameters, learning_rate)


def train(report: Path) -> None:
    """Do one step, as a rank of torchrun or alone, and report it."""
    rank, ranks = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    network = model()
    if ranks > 1:
        distributed.init_process_group("gloo")
        network = DistributedDataParallel(network)
    (inputs, targets), _ = datasets()
    adam = optimizer(list(network.parameters()), LEARNING_RATE)
    chosen = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(0))
    chosen = chosen[:BATCH_SIZE][rank::ranks]
    loss = nn.functional.cross_entropy(network(inputs[chosen]), targets[chosen])
    loss.backward()  # type: ignore[no-untyped-call]
    adam.step()
    if rank == 0:
        with report.open("a") as file:
            print(loss.item(), file=file)
    if ranks > 1:
        distributed.destroy_process_group()


if __name__ == "__main__":
    train(Path(sys.argv[1]))
