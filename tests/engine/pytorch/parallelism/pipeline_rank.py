"""Ranks that train small models in a pipeline, and write the results for `test_pipeline`.

`python -m tests.engine.pytorch.parallelism.pipeline_rank FOLDER` imports everything once and then
forks.
"""

from __future__ import annotations

import copy
import importlib
import linecache
import multiprocessing
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from engine.pytorch.parallel import Objective, Parallel, Rank, loss_of
from engine.pytorch.parallelism.stage_signature import ONLY_FLOATS
from engine.pytorch.precision import Precision
from engine.pytorch.process_group import ProcessGroup
from engine.pytorch.state import training_state
from engine.pytorch.strategies.pipeline import strategy
from engine.spec.recipe_file import RecipeInfo
from engine.spec.run_spec import RunSpec
from engine.worker import environment
from engine.worker.failure_report import failure_report
from tests.engine.pytorch.parallelism import pipeline_models
from tests.engine.pytorch.parallelism.pipeline_models import (
    Begin,
    End,
    Failing,
    Middle,
    chain,
    loss,
    metrics,
    samples,
)
from tests.support.torch_recipes import recipe_of

CPU = torch.device("cpu")
POOLS = (2, 3)
SIZES = (12, 7, 1)
MICROBATCHES = (0, 1, 3)
WEIGHT = 0.25

Found = dict[str, Any]


def objective(precision: str = "fp32") -> Objective:
    return Objective(loss, metrics, Precision(precision, "cpu"))


def gradients(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: p.grad.clone() for name, p in module.named_parameters() if p.grad is not None}


class Pool:
    """This rank, which uses the strategy as a trainer does."""

    def __init__(self, number: int, world_size: int) -> None:
        self.number = number
        self.world_size = world_size
        self.group = ProcessGroup(number, world_size, CPU, "gloo")

    def wrap_model(self, model: nn.Module, **options: Any) -> Parallel:
        devices = tuple(f"cpu:{number}" for number in range(self.world_size))
        spec = RunSpec(recipe="", strategy=strategy.name, devices=devices, **options)
        rank = Rank(self.number, self.world_size, (CPU,), self.group, spec)
        parallel = strategy.wrap_model(copy.deepcopy(model), rank, recipe_of())
        parallel.train()
        return parallel

    def train(self, parallel: Parallel, sizes: Sequence[int], precision: str = "fp32") -> Found:
        """This rank's gradients, and the loss of all ranks, for batches of these sizes."""
        total = torch.zeros(())
        for size in sizes:
            result = parallel.train_batch(samples(size), WEIGHT, objective(precision), sync=True)
            total += result["loss"]
        return {"loss": self.group.all_reduce_sum(total), "gradients": gradients(parallel.module)}


def by_hand(model: nn.Module, sizes: Sequence[int], precision: str = "fp32") -> Found:
    """The same for the whole model, without a pipeline."""
    model = copy.deepcopy(model)
    total = torch.zeros(())
    for size in sizes:
        inputs, targets = samples(size)
        with Precision(precision, "cpu").autocast():
            part = loss(model(inputs), targets) * WEIGHT
        torch.autograd.backward(part)
        total += part.detach()
    return {"loss": total, "gradients": gradients(model)}


def training(pool: Pool) -> Found:
    """For each way of training: the results of the pipeline, and those without one."""
    model = chain()
    found = {}
    for microbatches in MICROBATCHES:
        for size in SIZES:
            parallel = pool.wrap_model(model, microbatches=microbatches)
            name = f"{size} in {microbatches}"
            found[name] = (pool.train(parallel, [size]), by_hand(model, [size]))
    parallel = pool.wrap_model(model)
    sizes = [*range(1, 13), *range(1, 13)]  # more kinds of batches than are kept
    found["many sizes"] = (pool.train(parallel, sizes), by_hand(model, sizes))
    parallel.evaluate()
    parallel.validate_batch(samples(7), objective())
    parallel.free_devices()
    parallel.restore_devices()
    parallel.train()
    parallel.module.zero_grad()
    found["after a pause"] = (pool.train(parallel, [7]), by_hand(model, [7]))
    parallel = pool.wrap_model(model)
    found["bf16"] = (pool.train(parallel, [12], "bf16"), by_hand(model, [12], "bf16"))
    return found


def structures(pool: Pool) -> Found:
    """Dictionaries outside, values with a mask between the stages."""
    model = nn.Sequential(Begin(), *(Middle() for _ in range(pool.world_size - 2)), End())
    inputs, targets = samples(7)
    batch = {"image": inputs, "not used": targets}
    parallel = pool.wrap_model(model)
    result = parallel.train_batch((batch, targets), 1.0, objective(), sync=True)
    parallel.evaluate()
    figures = parallel.validate_batch((batch, targets), objective())
    expected = loss(model(batch), targets)
    torch.autograd.backward(expected)
    return {
        "pipeline": {
            "loss": pool.group.all_reduce_sum(loss_of(result)),
            "gradients": gradients(parallel.module),
        },
        "by hand": {"loss": expected.detach(), "gradients": gradients(model)},
        "figures": figures,
    }


def figures(pool: Pool) -> Found:
    """The figures of the whole model on each rank."""
    model = chain()
    parallel = pool.wrap_model(model)
    pool.train(parallel, [12])
    expected = by_hand(model, [12])["gradients"].values()
    found: Found = {
        "names": list(parallel.module.state_dict()),
        "parameters": parallel.count_parameters(),
        "norm": parallel.gradient_norm([p.grad for p in parallel.parameters()]),  # type: ignore[misc]
        "norm by hand": nn.utils.get_total_norm(expected),
        "waiting": parallel.communication_seconds(1),
        "waiting of nothing": parallel.communication_seconds(1),
    }
    parallel.evaluate()
    for size in SIZES:
        inputs, targets = samples(size)
        found[f"validation {size}"] = parallel.validate_batch((inputs, targets), objective())
        with torch.no_grad():
            found[f"by hand {size}"] = objective().loss_and_metrics(model(inputs), targets)
    found["waiting in validation"] = parallel.communication_seconds(1)
    return found


def statistics(pool: Pool) -> tuple[Found, Found]:
    """BatchNorm's statistics after 7 samples in 3 micro-batches, the last one padded."""
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Linear(6, 6), nn.BatchNorm1d(6)
    )
    inputs, targets = samples(7)
    parallel = pool.wrap_model(model, microbatches=3)
    parallel.train_batch((inputs, targets), 1.0, objective(), sync=True)
    parallel.evaluate()
    parallel.validate_batch((inputs, targets), objective())
    for rows in ([0, 1, 2], [3, 4, 5], [6, 6, 6]):
        model(inputs[rows])
    return dict(parallel.module.named_buffers()), dict(model.named_buffers())


def checkpointed(pool: Pool, folder: Path) -> tuple[Found, Found]:
    """The weights of all ranks, and those that one process without a pipeline restores."""
    torch.manual_seed(1)
    model = chain()
    parallel = pool.wrap_model(model)
    optimizer = torch.optim.AdamW(parallel.parameters())
    pool.train(parallel, [12])
    optimizer.step()
    training_state.save(folder, parallel.module, [optimizer], pool.group.cpu, {})
    pool.group.all_reduce_sum(torch.zeros(1))  # waits for the files of all ranks
    alone = chain()
    slots = torch.optim.AdamW(alone.parameters())
    training_state.restore(folder, alone, [slots], None, {})
    return parallel.module.state_dict(), alone.state_dict()


def failure(pool: Pool) -> Found:
    """This rank's failure report when the last stage fails."""
    layers = [nn.Linear(6, 6) for _ in range(pool.world_size - 1)]
    parallel = pool.wrap_model(nn.Sequential(nn.Flatten(), *layers, Failing()))
    recipe = RecipeInfo(name="", path=str(pipeline_models.__file__), builtin=False)
    try:
        parallel.train_batch(samples(4), 1.0, objective(), sync=True)
    except Exception as error:
        said = failure_report(pool.number, recipe, error)
        line = linecache.getline(recipe.path, int(said.where.rpartition(":")[2]))
        return {"message": said.message, "line": line.strip(), "lost_peer": said.lost_peer}
    return {}


def run(number: int, world_size: int, folder: Path) -> None:
    """Be one rank, and write the results."""
    os.environ[environment.RENDEZVOUS] = str(folder / f"rendezvous{world_size}")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    pool = Pool(number, world_size)
    found: Found = {
        "training": training(pool),
        **({} if ONLY_FLOATS else {"structures": structures(pool)}),
        "figures": figures(pool),
        "statistics": statistics(pool),
        "checkpointed": checkpointed(pool, folder / f"checkpoint{world_size}"),
        "failure": failure(pool),  # ends the pipeline, so it is the last
    }
    torch.save(found, folder / f"rank{number}of{world_size}.pt")


def main() -> int:
    """Run all ranks of all pools; 1 if one of them failed."""
    folder = Path(sys.argv[1])
    importlib.import_module(
        "torch._dynamo"
    )  # otherwise every rank imports it, which takes a second
    fork = multiprocessing.get_context("fork")
    ranks = [
        fork.Process(target=run, args=(number, size, folder))
        for size in POOLS
        for number in range(size)
    ]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    return int(any(rank.exitcode for rank in ranks))


if __name__ == "__main__":
    sys.exit(main())
