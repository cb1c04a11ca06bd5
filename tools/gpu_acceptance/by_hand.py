"""`python -m tools.gpu_acceptance.by_hand JSON...`: recipes of the kit, trained as by hand.

The loop is the shortest that a person writes. The recipe's loss takes the time, as in a run of the
product. Each training writes a line of JSON to standard output.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import torch
from torch import nn

from tools.gpu_acceptance.marks import Marks


class ByHand(msgspec.Struct, frozen=True, kw_only=True):
    """What is trained, and how."""

    recipe: str
    """A module of the kit's recipes."""

    device: str
    batch: int
    first: int
    last: int
    """The steps between which the time is taken; the second is also the last."""

    settings: dict[str, Any] = {}
    """Of the recipe: each goes to the functions that take it."""

    bf16: bool = False
    compile: bool = False
    benchmark: bool = False
    """Let cuDNN try its algorithms for convolutions."""

    channels_last: bool = False


def train(wanted: ByHand) -> dict[str, float]:
    """Train, and return what a step took, the last loss, the seconds to a step, the memory."""
    recipe: Any = importlib.import_module(f"tools.gpu_acceptance.recipes.{wanted.recipe}")
    recipe.marks = Marks(wanted.first, wanted.last)
    device = torch.device(wanted.device)
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.benchmark = wanted.benchmark
    torch.manual_seed(0)
    model: nn.Module = _call(recipe.model, wanted.settings).to(device)
    (inputs, targets), _ = _call(recipe.datasets, wanted.settings)
    inputs, targets = inputs.to(device), targets.to(device)
    if wanted.channels_last:
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        inputs = inputs.to(memory_format=torch.channels_last)
    optimizer = recipe.optimizer(list(model.parameters()), 0.0003)
    forward = torch.compile(model) if wanted.compile else model
    model.train()
    begin, first_step = time.perf_counter(), 0.0
    loss = torch.zeros(())
    for chosen in itertools.islice(_batches(len(inputs), wanted.batch, device), wanted.last):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device.type, torch.bfloat16, enabled=wanted.bf16):
            loss = recipe.loss(forward(inputs[chosen]), targets[chosen])
        loss.backward()
        optimizer.step()
        first_step = first_step or time.perf_counter() - begin
    reserved = torch.cuda.max_memory_reserved() if device.type == "cuda" else 0
    marks: Marks = recipe.marks
    return marks.found | {
        "loss": float(loss.detach()),
        "first_step_seconds": first_step,
        "reserved_gib": reserved / 2**30,
    }


def _batches(samples: int, batch: int, device: torch.device) -> Iterator[torch.Tensor]:
    """Yield the indices of batches, in a new order in each epoch, without end."""
    while True:
        order = torch.randperm(samples, device=device)
        for start in range(0, samples - batch + 1, batch):
            yield order[start : start + batch]


def _call(function: Callable[..., Any], settings: dict[str, Any]) -> Any:
    known = inspect.signature(function).parameters
    return function(**{name: value for name, value in settings.items() if name in known})


if __name__ == "__main__":
    for word in sys.argv[1:]:
        print(json.dumps(train(msgspec.json.decode(word, type=ByHand))), flush=True)
