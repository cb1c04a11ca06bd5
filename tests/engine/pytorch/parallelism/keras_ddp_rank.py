"""One rank that trains small Keras models, and writes the results for `test_keras_ddp`.

`python -m tests.engine.pytorch.parallelism.keras_ddp_rank RANK WORLD_SIZE FILE`, with
KERAS_BACKEND=torch.
"""

from __future__ import annotations

import copy
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from keras import optimizers
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict

from engine.pytorch.parallel import Objective, Parallel, Rank
from engine.pytorch.parallelism import keras_model
from engine.pytorch.precision import Precision
from engine.pytorch.process_group import ProcessGroup
from engine.pytorch.state import training_state
from engine.pytorch.strategies.keras_ddp import strategy
from engine.spec.run_spec import RunSpec
from tests.engine.pytorch.parallelism.keras_models import (
    OPTIMIZERS,
    noisy_model,
    samples,
    smooth_model,
)
from tests.support.torch_recipes import recipe_of

CPU = torch.device("cpu")
FLAT = StateDictOptions(flatten_optimizer_state_dict=True)


class Pool:
    """This rank, which uses the strategy as a trainer does."""

    def __init__(self, number: int, world_size: int) -> None:
        spec = RunSpec(recipe="", strategy=strategy.name, devices=("cpu:0",) * world_size)
        self.rank = Rank(
            number, world_size, (CPU,), ProcessGroup(number, world_size, CPU, "gloo"), spec
        )

    def wrap_model(self, make: Callable[[], Any]) -> Parallel:
        random.seed(0)
        torch.manual_seed(0)
        model = make()
        keras_model.build(model, samples(1, 0)[0])
        parallel = strategy.wrap_model(model, self.rank, recipe_of())
        parallel.train()
        return parallel

    def optimizer(self, parallel: Parallel, make: Callable[[Any], Any]) -> torch.optim.Optimizer:
        return parallel.as_torch_optimizer(make(parallel.optimizer_inputs()))

    def backward(self, parallel: Parallel, parts: list[int], precision: str = "fp32") -> Any:
        """Gradients and loss of a batch in `parts`, each divided among the ranks."""
        objective = Objective(
            keras_model.loss, lambda outputs, targets: {}, Precision(precision, "cpu")
        )
        inputs, targets = samples(sum(parts), 1)
        loss, begin = torch.zeros(()), 0
        for number, size in enumerate(parts, start=1):
            mine = torch.arange(begin, begin + size)[self.rank.number :: self.rank.world_size]
            values = parallel.train_batch(
                (inputs[mine], targets[mine]),
                len(mine) / sum(parts),
                objective,
                sync=number == len(parts),
            )
            loss = loss + values["loss"]
            begin += size
        return self.rank.group.all_reduce_sum(loss)


def gradients(pool: Pool) -> dict[str, Any]:
    """Gradients of 7 samples, which no number of ranks or parts here divides."""
    found: dict[str, Any] = {}
    for parts in ([7], [4, 3]):
        parallel = pool.wrap_model(smooth_model)
        loss = pool.backward(parallel, parts)
        found[str(parts)] = {"loss": loss} | by_name(parallel)
    parallel = pool.wrap_model(smooth_model)
    found["by hand"] = {"loss": loss_by_hand(parallel)} | by_name(parallel)
    return found


def by_name(parallel: Parallel) -> dict[str, Any]:
    return {name: copy.deepcopy(p.grad) for name, p in parallel.module.named_parameters()}


def loss_by_hand(parallel: Parallel) -> torch.Tensor:
    """The loss of all 7 samples at once, without the model's own terms; gradients hold them."""
    inputs, targets = samples(7, 1)
    outputs = parallel.module(inputs)
    loss = torch.nn.functional.cross_entropy(outputs, targets)
    kernel = dict(parallel.module.named_parameters())["weights.smooth/first/kernel"]
    own = 0.01 * kernel.square().sum() + 0.01 * outputs.square().sum() / len(inputs)
    torch.autograd.backward(loss + own)
    return loss.detach()


def statistics(pool: Pool) -> dict[str, Any]:
    """The running mean, step by step."""
    parallel = pool.wrap_model(noisy_model)
    mean = dict(parallel.module.named_parameters())["weights.noisy/norm/moving_mean"]
    found = {"begin": mean.clone()}
    pool.backward(parallel, [6])
    found["trained"] = mean.clone()
    parallel.evaluate()
    found["aligned"] = mean.clone()
    parallel.validation_outputs(samples(6, 2)[0])  # type: ignore[attr-defined]
    found["validated"] = mean.clone()
    return found


def dropout(pool: Pool) -> dict[str, Any]:
    """Outputs for the same inputs, several times on all ranks."""
    parallel: Any = pool.wrap_model(noisy_model)
    inputs, _ = samples(6, 2)
    found = {"trained": parallel.outputs(inputs), "trained again": parallel.outputs(inputs)}
    kept = parallel.rank_state()
    found["next"] = parallel.outputs(inputs)
    parallel.restore_devices()  # wraps the model again; the seeds stay
    found["after next"] = parallel.outputs(inputs)
    parallel.load_rank_state(kept)
    found["next, restored"] = parallel.outputs(inputs)
    parallel.evaluate()
    found["validated"] = parallel.validation_outputs(inputs)
    found["validated again"] = parallel.validation_outputs(inputs)
    return {name: outputs.detach() for name, outputs in found.items()}


def optimizer_states(pool: Pool) -> dict[str, Any]:
    """For each optimizer: whether a restored training equals one without interruption."""
    return {name: optimizer_state(pool, make) for name, make in OPTIMIZERS.items()}


def optimizer_state(pool: Pool, make: Callable[[Any], Any]) -> dict[str, bool]:
    def begin() -> tuple[Parallel, torch.optim.Optimizer]:
        parallel = pool.wrap_model(smooth_model)
        return parallel, pool.optimizer(parallel, make)

    def step(parallel: Parallel, optimizer: torch.optim.Optimizer, rate: float = 0.1) -> None:
        optimizer.zero_grad()
        optimizer.param_groups[0]["lr"] = rate
        pool.backward(parallel, [4])
        optimizer.step()

    def state(parallel: Parallel, optimizer: torch.optim.Optimizer) -> Any:
        model, slots = get_state_dict(parallel.module, optimizer, options=FLAT)
        return copy.deepcopy({**model, **slots})

    original, restored = begin(), begin()
    fresh = state(*original)
    step(*original, rate=0.02)
    for _ in range(2):
        step(*original)
    saved = state(*original)
    set_state_dict(
        restored[0].module,
        restored[1],
        model_state_dict={k: v for k, v in saved.items() if k.startswith("weights.")},
        optim_state_dict={k: v for k, v in saved.items() if not k.startswith("weights.")},
        options=FLAT,
    )
    found = {
        "looking changes nothing": same(fresh, state(*begin())),
        "training changes it": not same(fresh, saved),
        "restored": same(saved, state(*restored)),
    }
    for training in (original, restored):
        step(*training)
    found["goes on alike"] = same(state(*original), state(*restored))
    return found


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Bit for bit."""
    return one.keys() == other.keys() and all(
        torch.equal(value, other[key]) if isinstance(value, torch.Tensor) else value == other[key]
        for key, value in one.items()
    )


def constraints(pool: Pool) -> dict[str, float]:
    """The smallest bias, after a step, of a layer whose constraint allows none below 0."""
    found = {}
    for name in ("sgd", "torch"):
        parallel = pool.wrap_model(smooth_model)
        optimizer = pool.optimizer(parallel, OPTIMIZERS[name])
        pool.backward(parallel, [4])
        optimizer.step()
        found[name] = float(parallel.parameters()[-1].detach().min())
    return found


def learning_rates(pool: Pool) -> dict[str, Any]:
    """The length of a step of plain gradient descent, for each learning rate."""
    found = {}
    for rate in (0.0, 0.25):
        parallel = pool.wrap_model(smooth_model)
        optimizer = pool.optimizer(parallel, OPTIMIZERS["sgd"])
        optimizer.param_groups[0]["lr"] = rate
        pool.backward(parallel, [4])
        weight = parallel.parameters()[0]
        assert weight.grad is not None
        expected = weight.detach() - rate * weight.grad
        optimizer.step()
        found[str(rate)] = (weight.detach(), expected)
    return found


def checkpointed(pool: Pool, folder: Path) -> dict[str, Any]:
    """Weights before a checkpoint of all ranks together, and in another training after it."""
    found = {}
    one, other = (pool.wrap_model(noisy_model) for _ in range(2))
    for name, parallel in (("saved", one), ("restored", other)):
        optimizer = pool.optimizer(parallel, OPTIMIZERS["adamw"])
        if name == "saved":
            pool.backward(parallel, [6])
            optimizer.step()
            parallel.sync_buffers()
            training_state.save(folder, parallel.module, [optimizer], pool.rank.group.cpu, {})
        else:
            training_state.restore(folder, parallel.module, [optimizer], pool.rank.group.cpu, {})
        slots = optimizer.state[parallel.parameters()[0]]
        found[name] = copy.deepcopy({**parallel.module.state_dict(), **slots})
    return found


def adam_steps(pool: Pool) -> dict[str, bool]:
    """Whether our steps of Adam change the same as those of Keras, also after a restore."""
    found = {}
    makers: dict[str, Any] = {
        "adamw": lambda _: optimizers.AdamW(0.1),
        "adam": lambda _: optimizers.Adam(0.1, weight_decay=0.01, clipnorm=0.5),
    }
    for name, make in makers.items():
        states = []
        for is_ours in (True, False):
            parallel = pool.wrap_model(smooth_model)
            optimizer: Any = pool.optimizer(parallel, make)
            assert optimizer._is_adam
            optimizer._is_adam = is_ours
            for number in range(4):
                optimizer.param_groups[0]["lr"] = 0.1 / (1 + number)
                pool.backward(parallel, [4])
                optimizer.step()
                if number == 1:
                    optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
            slots = optimizer.state[parallel.parameters()[0]]
            states.append(copy.deepcopy({**parallel.module.state_dict(), **slots}))
        found[name] = same(*states)
    return found


def half_precision(pool: Pool) -> dict[str, Any]:
    found = {}
    for precision in ("fp32", "bf16"):
        parallel = pool.wrap_model(noisy_model)
        pool.backward(parallel, [6], precision)
        found[precision] = copy.deepcopy(parallel.parameters()[-1].grad)
    return found


def refused(pool: Pool) -> dict[str, str]:
    """The messages for optimizers that cannot work here."""
    parallel = pool.wrap_model(smooth_model)
    decay = optimizers.schedules.ExponentialDecay(0.1, 1, 0.5)

    def said(make: Callable[[Any], Any], rate: float | None = None) -> str:
        try:
            optimizer = pool.optimizer(parallel, make)
            optimizer.param_groups[0]["lr"] = rate or optimizer.param_groups[0]["lr"]
            optimizer.step()
        except (TypeError, ValueError) as error:
            return str(error)
        return ""

    return {
        "scaling": said(lambda variables: optimizers.SGD(0.1, loss_scale_factor=8.0)),
        "scaler": said(lambda v: optimizers.LossScaleOptimizer(optimizers.SGD(0.1))),
        "no optimizer": said(lambda variables: "adam"),
        "own schedule": said(lambda variables: optimizers.SGD(decay)),
        "two schedules": said(lambda variables: optimizers.SGD(decay), rate=0.05),
    }


def main() -> None:
    number, world_size, path = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    torch.set_num_threads(1)
    pool = Pool(number, world_size)
    found: dict[str, Any] = {
        "gradients": gradients(pool),
        "statistics": statistics(pool),
        "dropout": dropout(pool),
        "checkpointed": checkpointed(pool, path.parent / f"checkpoint{world_size}"),
    }
    if world_size == 1:
        found |= {
            "optimizer_states": optimizer_states(pool),
            "constraints": constraints(pool),
            "learning_rates": learning_rates(pool),
            "adam_steps": adam_steps(pool),
            "half_precision": half_precision(pool),
            "refused": refused(pool),
        }
    found["modules"] = [name for name in ("keras", "torch", "tensorflow") if name in sys.modules]
    torch.save(found, path)
    pool.rank.group.close()


if __name__ == "__main__":
    main()
