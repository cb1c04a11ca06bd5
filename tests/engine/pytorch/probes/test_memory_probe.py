"""What a rank tells about the memory of its third step."""

import pytest
import torch
from torch import nn

from engine.planning.memory import allocations
from engine.pytorch.probes.memory_probe import MemoryProbe
from engine.training.probes.memory_record import CPU, MEASURE_MEMORY, RECORDED_STEP, DeviceRecord

FLOAT = 4


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> MemoryProbe:
    monkeypatch.setenv(MEASURE_MEMORY, "step")
    return MemoryProbe([torch.device("cpu"), torch.device("cpu")], ["cpu:0", "cpu:1"])


def recorded(
    probe: MemoryProbe, model: nn.Module, batch: int, average: list[torch.Tensor] | None = None
) -> DeviceRecord:
    """Record the third step of `model` with Adam."""
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad])

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        model(torch.ones(batch, 100)).sum().backward()
        optimizer.step()

    step()
    step()
    with probe.recorded(model, [optimizer], average or []):
        step()
    return probe.record().devices[CPU]


def without_earlier_blocks(step: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Leave out the release of blocks from before a step.

    PyTorch tells it only of blocks whose addresses an earlier profile of this process has seen, and
    then with the size that the block had in that one. A worker has one profile, this process many.
    """
    made = {block for block, size in step if size > 0}
    return [(block, size) for block, size in step if block in made]


def test_only_the_third_step_is_recorded(probe: MemoryProbe) -> None:
    assert [step for step in range(6) if probe.is_due(step)] == [RECORDED_STEP]


def test_no_step_is_recorded_where_only_peaks_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MEASURE_MEMORY, "peak")
    assert not MemoryProbe([torch.device("cpu")], ["cpu:0"]).is_due(RECORDED_STEP)


def test_all_logical_cpus_have_one_memory(probe: MemoryProbe) -> None:
    assert list(probe.record().devices) == [CPU]


def test_weights_gradients_and_the_optimizers_state_are_told(probe: MemoryProbe) -> None:
    found = recorded(probe, nn.Linear(100, 50), 8)
    size = (100 * 50 + 50) * FLOAT
    assert found.weights == size
    assert found.gradients == size
    assert 2 * size <= found.optimizer <= 2 * size + 2 * 64  # and the number of steps


def test_tied_weights_count_once_and_frozen_ones_have_no_gradients(probe: MemoryProbe) -> None:
    first, second = nn.Linear(100, 100), nn.Linear(100, 100)
    second.weight = first.weight
    second.bias.requires_grad_(False)
    found = recorded(probe, nn.Sequential(first, second), 8)
    assert found.weights == (100 * 100 + 200) * FLOAT
    assert found.gradients == (100 * 100 + 100) * FLOAT


def test_buffers_and_averaged_weights_count(probe: MemoryProbe) -> None:
    found = recorded(probe, nn.BatchNorm1d(100), 8, [torch.zeros(10)])
    assert found.weights == 4 * 100 * FLOAT + 8  # the number of batches too
    assert found.average == 10 * FLOAT


def test_each_block_of_the_step_is_told(probe: MemoryProbe) -> None:
    found = recorded(probe, nn.Sequential(nn.Linear(100, 1000), nn.Linear(1000, 1)), 64)
    own = without_earlier_blocks(found.allocations)
    assert allocations.peak(own) >= (64 * 1000 + 100 * 1000) * FLOAT
    sizes = dict[int, int]()
    for number, size in found.allocations:
        if size > 0:
            assert number not in sizes
            sizes[number] = size
        elif number in sizes:
            assert sizes.pop(number) == -size
    assert found.step_peak > 0


def test_two_small_batches_tell_what_a_large_one_allocates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(MEASURE_MEMORY, "step")

    def step(batch: int) -> list[tuple[int, int]]:
        model = nn.Sequential(nn.Linear(100, 300), nn.ReLU(), nn.Linear(300, 10))
        own = MemoryProbe([torch.device("cpu")], ["cpu:0"])
        return without_earlier_blocks(recorded(own, model, batch).allocations)

    grown = allocations.growth(step(8), 8, step(16), 16).at(1000)
    assert allocations.peak(grown) == pytest.approx(allocations.peak(step(1000)), rel=0.02)
