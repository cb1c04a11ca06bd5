"""The trainer of PyTorch in this process: what it says about the samples and time of its steps."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from engine.pytorch.trainer import TorchTrainer
from engine.runs.checkpoint_files import Position
from engine.spec import catalog
from engine.spec.run_spec import RunSpec
from engine.spec.strategy import WorkerPlan

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
        load_recipe=lambda: SimpleNamespace(model=model, datasets=lambda: (data(), None)),
        recipe=SimpleNamespace(learning_rate=0.1, file="small", owns=lambda file: True),
        settings_for=lambda function: {},
        emit=lambda event: None,
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
        one.run_steps(Position(0, number, number), 1)
        found.append(one.samples)
    assert found == samples
    one.run_steps(Position(1, 0, len(samples)), len(samples))
    assert one.samples == sum(samples)
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
    one.run_steps(Position(0, 0, 0), 1)
    one.rank_metrics()
    begin = time.perf_counter()
    one.run_steps(Position(0, 1, 1), 1)
    seconds = time.perf_counter() - begin
    parts = {name: share * seconds for name, share in one.rank_metrics().items()}
    assert parts["data_share"] >= 0.02
    assert parts["compute_share"] >= 0.03
    of_steps = [parts[f"{name}_share"] for name in ("data", "compute", "communication")]
    assert sum(of_steps) == pytest.approx(seconds)
    one.close()
