"""What torch.compile makes of a model under each strategy that allows it."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import distributed, nn

from engine.pytorch.compilation import compile_forward
from engine.pytorch.parallel import Objective, Parallel, Rank
from engine.pytorch.parallelism import fsdp
from engine.pytorch.parallelism.ddp import DDPModel
from engine.pytorch.parallelism.fsdp import FSDPModel
from engine.pytorch.parallelism.pipeline import PipelineModel
from engine.pytorch.precision import Precision
from engine.pytorch.process_group import SingleProcess
from engine.pytorch.recipe import defaults
from engine.pytorch.strategies import model_parallel, single
from engine.spec.run_spec import RunSpec
from tests.support.torch_recipes import recipe_of

if TYPE_CHECKING:
    from torch._dynamo.testing import CompileCounter

# Dynamo looks at the gradient of what one part gives to the next.
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")

CPU = torch.device("cpu")
INPUTS, TARGETS = torch.randn(6, 3), torch.tensor([0, 1, 2, 0, 1, 2])


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> Iterator[CompileCounter]:
    """Counts the graphs; they are computed without a compiler."""
    from torch._dynamo.testing import CompileCounter  # half a second, for each xdist worker

    counter = CompileCounter()
    real = torch.compile
    monkeypatch.setattr(torch, "compile", lambda function: real(function, backend=counter))
    torch._dynamo.reset()
    yield counter
    torch._dynamo.reset()


@pytest.fixture
def alone() -> Iterator[None]:
    """This process is the only rank of a process group."""
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def rank(strategy: str, devices: int = 1, **options: Any) -> Rank:
    spec = RunSpec(recipe="r", strategy=strategy, devices=("cpu:0",) * devices, **options)
    return Rank(0, 1, (CPU,) * devices, SingleProcess(), spec)


def sequential() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))


def step(model: Any, batch: Any, turn: Any) -> dict[str, Any]:
    inputs, targets = batch
    return {"loss": nn.functional.cross_entropy(model(inputs), targets)}


def wrapped(kind: str, module: nn.Module, *, has_step: bool, **options: Any) -> Parallel:
    """The model as the strategy `torch/<kind>` spreads it."""
    match kind:
        case "ddp":
            return DDPModel(module, rank("torch/ddp", **options), has_step=has_step)
        case "fsdp":
            return FSDPModel(module, rank("torch/fsdp", **options), has_step=has_step)
        case "model_parallel":
            place = rank("torch/model_parallel", 2, **options)
            return model_parallel.strategy.wrap_model(module, place, recipe_of())
        case _:
            return single.strategy.wrap_model(module, rank("torch/single", **options), recipe_of())


def trained(kind: str, module: nn.Module, *, has_step: bool, **options: Any) -> Parallel:
    """The same after forward and backward pass of a batch."""
    own = step if has_step else None
    precision = Precision("fp32", "cpu")
    objective = Objective(defaults.loss, lambda outputs, targets: {}, precision, own)
    parallel = wrapped(kind, module, has_step=has_step, **options)
    parallel.train()
    parallel.train_batch((INPUTS, TARGETS), 1.0, objective, sync=True)
    parallel.evaluate()
    parallel.validate_batch((INPUTS, TARGETS), objective)
    return parallel


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("has_step", [False, True], ids=["loss", "step"])
@pytest.mark.parametrize(
    ("kind", "options", "count"),
    [
        ("single", {}, 1),
        ("ddp", {}, 1),
        ("ddp", {"on_oom": "shrink"}, 1),
        ("fsdp", {}, 1),
        ("model_parallel", {}, 2),
    ],
)
def test_a_sequential_is_compiled_in_training(
    kind: str, options: dict[str, Any], count: int, has_step: bool, graphs: CompileCounter
) -> None:
    module = sequential()
    plain = copy.deepcopy(module)
    parallel = trained(kind, module, has_step=has_step, compile=True, **options)
    assert graphs.frame_count == count
    assert parallel.module.state_dict().keys() == plain.state_dict().keys()
    expected = nn.functional.cross_entropy(plain(INPUTS), TARGETS)
    torch.autograd.backward(expected)
    for (name, ours), theirs in zip(
        parallel.module.named_parameters(), plain.parameters(), strict=True
    ):
        found: Any = ours.grad
        whole = found.full_tensor() if hasattr(found, "full_tensor") else found
        torch.testing.assert_close(whole, theirs.grad, msg=name)


@pytest.mark.usefixtures("alone")
def test_nothing_is_compiled_without_the_option(graphs: CompileCounter) -> None:
    for kind in ("single", "ddp", "fsdp", "model_parallel"):
        trained(kind, sequential(), has_step=False)
    assert graphs.frame_count == 0


@pytest.mark.usefixtures("alone")
def test_each_unit_of_fsdp_is_compiled(
    graphs: CompileCounter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fsdp, "MIN_UNIT_PARAMETERS", 10)
    trained("fsdp", sequential(), has_step=False, compile=True)
    assert graphs.frame_count >= 2


def test_a_stage_of_a_pipeline_is_compiled(graphs: CompileCounter) -> None:
    stage = sequential()
    parallel = PipelineModel(stage, stage, rank("torch/pipeline", 2, compile=True))
    parallel.train()
    stage(INPUTS)
    assert graphs.frame_count == 1


def test_a_copy_computes_with_its_own_parameters(graphs: CompileCounter) -> None:
    module = sequential()
    compile_forward(module)
    other = copy.deepcopy(module)
    nn.init.zeros_(other[2].weight)
    nn.init.zeros_(other[2].bias)
    assert not other(INPUTS).any()
    assert module(INPUTS).any()
