"""The trainer of PyTorch in this process: what it says about the samples and time of its steps."""

from __future__ import annotations

import contextlib
import re
import runpy
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from engine.messages.events import Notice, Shrunk
from engine.pytorch import memory
from engine.pytorch.trainer import TorchTrainer
from engine.runs.checkpoints.checkpoint_files import Position
from engine.spec import catalog
from engine.spec.run_spec import RunSpec
from engine.spec.strategy import WorkerPlan
from engine.training.errors import TrainingFailed
from tests.support.runs import RECIPES
from tests.support.sentences import sentence

SAMPLES = 10
FACTS = torch.randn(SAMPLES, 3)
TARGETS = torch.randint(0, 2, (SAMPLES,))
ALL = TensorDataset(FACTS, TARGETS)


def stream() -> Iterator[Any]:
    """The samples one after the other, as a stream of unknown length."""
    return iter([(FACTS[n], TARGETS[n]) for n in range(SAMPLES)])


def linear() -> nn.Module:
    return nn.Linear(3, 2)


def trainer(
    data: Callable[[], Any], model: Callable[[], nn.Module] = linear, **options: Any
) -> TorchTrainer:
    """A trainer of `model` on one CPU, with the data that `data` gives."""
    said: list[Any] = options.pop("said", [])
    recipe = {"model": model, "datasets": lambda: (data(), None), **options.pop("recipe", {})}
    spec = RunSpec(recipe="small", strategy="torch/single", devices=("cpu:0",), **options)
    session: Any = SimpleNamespace(
        spec=spec,
        asked_accumulation=spec.accumulation,
        rank=0,
        world_size=1,
        devices=spec.slots,
        machine_devices=spec.devices,
        plan=WorkerPlan(0, spec.slots),
        connecting=contextlib.nullcontext,
        load_recipe=lambda: SimpleNamespace(**recipe),
        recipe=SimpleNamespace(learning_rate=0.1, file="small", owns=lambda file: True),
        settings_for=lambda function: {},
        emit=said.append,
        folder=None,  # nothing is written without a request
    )
    strategy: Any = catalog.strategy(spec.strategy)
    return TorchTrainer(session, strategy)


@pytest.mark.parametrize(
    ("data", "options", "samples"),
    [
        pytest.param(lambda: (FACTS, TARGETS), {"batch_size": 4}, [4, 4, 2], id="short last batch"),
        pytest.param(
            lambda: (FACTS, TARGETS), {"batch_size": 500}, [10], id="larger than the data"
        ),
        pytest.param(
            lambda: (FACTS, TARGETS), {"batch_size": 4, "accumulation": 2}, [4, 4, 2], id="parts"
        ),
        pytest.param(
            lambda: DataLoader(ALL, 4, drop_last=True), {"batch_size": 4}, [4, 4], id="drop_last"
        ),
        pytest.param(
            lambda: DataLoader(ALL, batch_sampler=[[0, 1, 2], [3], [4, 5]]),
            {"batch_size": 32},
            [3, 1, 2],
            id="batch_sampler",
        ),
        pytest.param(lambda: stream, {"batch_size": 4}, [4, 4, 2], id="stream"),
    ],
)
def test_it_counts_the_samples_that_a_step_had(
    data: Callable[[], Any], options: dict[str, Any], samples: list[int]
) -> None:
    """Throughput is made of them, and not of the batch size."""
    one = trainer(data, **options)
    found = []
    for number in range(len(samples)):
        found.append(one.run_steps(Position(0, number, number), 1).samples)
    assert found == samples
    assert one.run_steps(Position(1, 0, len(samples)), len(samples)).samples == sum(samples)
    one.close()


class SlowData(TensorDataset):
    """Each sample takes 5 ms."""

    def __getitem__(self, index: int) -> Any:
        time.sleep(0.005)
        return super().__getitem__(index)


class SlowLinear(nn.Linear):
    """A forward pass takes 30 ms."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        time.sleep(0.03)
        return super().forward(inputs)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(lambda: SlowData(FACTS, TARGETS), id="by index"),
        pytest.param(lambda: (sample for sample in SlowData(FACTS, TARGETS)), id="stream"),
    ],
)
def test_waiting_for_data_and_computing_add_up_to_the_steps(data: Callable[[], Any]) -> None:
    """A sleep never ends early, so these bounds hold on a machine of any speed."""
    one = trainer(lambda: data, lambda: SlowLinear(3, 2), batch_size=4)
    one.run_steps(Position(0, 0, 0), 1).read()
    one.rank_metrics()
    begin = time.perf_counter()
    one.run_steps(Position(0, 1, 1), 1).read()
    seconds = time.perf_counter() - begin
    parts = {name: share * seconds for name, share in one.rank_metrics().items()}
    assert parts["data_share"] >= 0.02
    assert parts["compute_share"] >= 0.03
    of_steps = [parts[f"{name}_share"] for name in ("data", "compute", "communication")]
    assert sum(of_steps) == pytest.approx(seconds)
    one.close()


class Ready(IterableDataset[Any]):
    """One batch that is ready."""

    def __init__(self, batch: Any) -> None:
        self.batch = batch

    def __iter__(self) -> Iterator[Any]:
        yield self.batch


class Normal(nn.Module):
    """BatchNorm and dropout; the first `failures` forward passes are out of memory at their end."""

    def __init__(self, failures: int = 0) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 2)
        )
        self.failures = failures

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.layers(inputs)
        self.failures -= 1
        if self.failures >= 0:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate")
        return outputs


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(lambda: (FACTS, TARGETS), id="arrays"),
        pytest.param(lambda: DataLoader(ALL, 8), id="loader"),
        pytest.param(lambda: stream, id="stream"),
        pytest.param(stream, id="an iterator that is read once"),
        pytest.param(lambda: DataLoader(Ready((FACTS[:8], TARGETS[:8])), None), id="ready batches"),
    ],
)
@pytest.mark.parametrize(("failures", "parts"), [(1, 2), (2, 4)])
def test_a_repeated_step_is_that_of_smaller_parts(
    data: Callable[[], Any], failures: int, parts: int
) -> None:
    """Also its random numbers and running statistics."""
    found = []
    for fails in (True, False):
        one = trainer(
            data,
            lambda: Normal(failures if fails else 0),  # noqa: B023
            batch_size=8,
            accumulation=1 if fails else parts,
            epochs=1,
            on_oom="shrink",
        )
        one._is_first_step = False  # its trial would be a forward pass
        losses = one.run_steps(Position(0, 0, 0), 1).read()["loss"]
        state = one._parallel.module.state_dict()
        found.append([losses[0], *(float(value.double().sum()) for value in state.values())])
        one.close()
    assert found[0] == pytest.approx(found[1], abs=1e-6)


def test_what_cannot_be_divided_says_so_where_it_would_have_to_be() -> None:
    def step(model: nn.Module, batch: Any) -> torch.Tensor:
        return nn.functional.cross_entropy(model(batch["inputs"]), batch["targets"])

    batch = {"inputs": FACTS[:8], "targets": TARGETS[:8], "more": FACTS[:5]}
    one = trainer(
        lambda: DataLoader(Ready(batch), None),
        lambda: Normal(1),
        batch_size=8,
        on_oom="shrink",
        recipe={"step": step},
    )
    one._is_first_step = False
    with pytest.raises(
        TrainingFailed, match=sentence("cannot-be-divided-into-parts").pattern
    ) as caught:
        one.run_steps(Position(0, 0, 0), 1)
    assert str(caught.value).startswith(sentence("rank-ran-out-of-memory-in-forward"))
    one.close()


def test_what_is_carried_from_batch_to_batch_has_parts_of_one_size() -> None:
    def step(model: nn.Module, batch: Any, carried: Any = None) -> Any:
        return model(batch[0]).sum(), None

    with pytest.raises(TrainingFailed, match=sentence("parts-of-batch-they-cannot-become").pattern):
        trainer(lambda: DataLoader(ALL, 8), batch_size=8, on_oom="shrink", recipe={"step": step})


def test_an_event_says_how_it_goes_on() -> None:
    said: list[Any] = []
    one = trainer(
        lambda: (FACTS, TARGETS), lambda: Normal(1), batch_size=8, on_oom="shrink", said=said
    )
    one._is_first_step = False
    one.run_steps(Position(0, 0, 0), 1)
    [event] = [event for event in said if isinstance(event, Shrunk)]
    assert event.text == sentence("ranks-go-on-and-batchnorm-differs")
    one.close()


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The numbers of the graphs of torch.compile that have computed, one after the other."""
    made: list[Any] = []
    numbers: list[int] = []

    def backend(graph: Any, inputs: Any) -> Callable[..., Any]:
        made.append(graph)
        number = len(made) - 1

        def run(*values: Any) -> Any:
            numbers.append(number)
            return graph.forward(*values)

        return run

    real = torch.compile
    monkeypatch.setattr(torch, "compile", lambda function: real(function, backend=backend))
    torch._dynamo.reset()
    yield numbers
    torch._dynamo.reset()


def part_only(model: Any, batch: Any) -> torch.Tensor:
    """A step that never calls the model itself."""
    return nn.functional.cross_entropy(model[0](batch[0]), batch[1])


@pytest.mark.parametrize(
    ("options", "graphs", "told"),
    [
        # The first size keeps its own graph.
        pytest.param({"compile": True}, [0, 0, 1, 0, 0, 1], ["is smaller"], id="smaller batch"),
        pytest.param({"compile": True, "batch_size": 5}, [0, 0, 0, 0], [], id="equal batches"),
        pytest.param(
            {"compile": True, "batch_size": 5, "recipe": {"step": part_only}},
            [],
            ["has compiled nothing"],
            id="no graph",
        ),
        pytest.param({"recipe": {"step": part_only}}, [], [], id="not asked for"),
    ],
)
def test_it_says_when_torch_compile_does_nothing_and_when_it_compiles_again(
    options: dict[str, Any], graphs: list[int], told: list[str], ran: list[int]
) -> None:
    said: list[Any] = []
    one = trainer(
        lambda: (FACTS, TARGETS),
        lambda: nn.Sequential(linear()),
        said=said,
        **{"batch_size": 4} | options,
    )
    for epoch in range(2):
        for batch in range(one.steps_per_epoch):
            one.run_steps(Position(epoch, batch, epoch * one.steps_per_epoch + batch), 1)
    one.close()
    texts = [event.text for event in said if isinstance(event, Notice)]
    assert len(texts) == len(told)
    assert all(words in text for words, text in zip(told, texts, strict=True))
    assert ran == graphs


def test_a_freed_pause_keeps_neither_a_snapshot_nor_workspaces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = trainer(lambda: (FACTS, TARGETS), lambda: Normal(0), batch_size=8, on_oom="shrink")
    one.run_steps(Position(0, 0, 0), 1)
    before = weakref.ref(one._snapshot)
    assert before() is not None
    done: list[str] = []
    monkeypatch.setattr(memory, "free_workspaces", lambda: done.append("workspaces"))
    monkeypatch.setattr(one, "empty_cache", lambda: done.append("cache"))
    one.free_devices()
    assert before() is None
    assert done == ["workspaces", "cache"], "or the segments that hold them stay"
    one.restore_devices()
    one.run_steps(Position(0, 1, 1), 1)
    one.close()


@pytest.mark.parametrize(
    ("recipe", "change", "options", "text"),
    [
        (
            "probe_steps",
            ("\n", "\n"),
            {"schedule": "cosine"},
            sentence("scheduler-and-schedule-contradict"),
        ),
        ("probe_gan", ("\n", "\n"), {"optimizer": "sgd"}, sentence("choose-optimizer-recipe")),
        (
            "probe_carried",
            ("DataLoader(data, TEXTS), DataLoader", "data, DataLoader"),
            {},
            "its samples are shuffled",
        ),
        ("probe_gan", ("return (pair,)", "return pair, pair"), {}, "no validate(model, batch)"),
    ],
)
def test_what_a_recipe_with_a_step_cannot_have_is_refused_by_name(
    recipe: str, change: tuple[str, str], options: dict[str, Any], text: str, tmp_path: Path
) -> None:
    source = (RECIPES / f"{recipe}.py").read_text()
    assert change[0] in source
    file = tmp_path / f"{recipe}.py"
    file.write_text(source.replace(*change))
    with pytest.raises(TrainingFailed, match=re.escape(text)):
        trainer(list, recipe=runpy.run_path(str(file)), batch_size=8, epochs=4, **options)
