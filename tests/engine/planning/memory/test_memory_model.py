"""The peak of a run as a function of its batch, from what short runs have shown."""

import pytest

from engine.planning.memory import memory_model
from engine.planning.memory.memory_model import MemoryModel, at_start
from engine.planning.short_run import ShortRun, held_together
from engine.spec.run_spec import RunSpec
from engine.training.probes.memory_record import CPU, DeviceRecord, RankRecord

MIB = 2**20
GPU = "GPU-1"


@pytest.fixture(autouse=True)
def _exact_heaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A heap is as large as its blocks and a tenth."""
    monkeypatch.setattr(
        memory_model,
        "heap_peaks",
        lambda steps: [round(1.1 * peak) for peak in memory_model._peaks(steps)],
    )


def run(batch: int, *ranks: RankRecord, devices: tuple[str, ...] = ("cpu:0",)) -> ShortRun:
    spec = RunSpec(recipe="digits", strategy="torch/ddp", devices=devices, batch_size=batch)
    known = dict(enumerate(ranks))
    return ShortRun(spec=spec, ranks=known, memory=held_together(known))


def torch_rank(batch: int, device: str = CPU, **more: int) -> RankRecord:
    """A rank of 10 MiB of weights, whose step needs 1 MiB for each sample and 10 for gradients."""
    step = [(0, batch * MIB), (1, 10 * MIB), (0, -batch * MIB)]
    sizes = {"weights": 10 * MIB, "gradients": 10 * MIB, "optimizer": 20 * MIB}
    peak = 300 * MIB + batch * MIB
    return RankRecord(devices={device: DeviceRecord(peak=peak, allocations=step, **sizes, **more)})


def test_tensors_grow_with_the_batch_and_the_heap_with_them() -> None:
    model = MemoryModel([run(8, torch_rank(8)), run(16, torch_rank(16))])
    assert model.measured == 16
    found = model.peaks(100)[CPU]
    assert found == pytest.approx((300 + 16 + 1.1 * (100 - 16)) * MIB, rel=1e-3)


def test_a_gpu_needs_what_its_tensors_need() -> None:
    runs = [run(size, torch_rank(size, GPU), devices=(GPU,)) for size in (8, 16)]
    model = MemoryModel(runs)
    assert model.is_exact
    assert model.peaks(100)[GPU] == (300 + 100) * MIB


def test_the_parts_of_a_device_add_up() -> None:
    model = MemoryModel([run(8, torch_rank(8)), run(16, torch_rank(16))])
    (found,) = model.devices(100, {CPU: 1e9})
    assert (found.weights, found.gradients, found.optimizer) == (10 * MIB, 10 * MIB, 20 * MIB)
    assert found.activations == 100 * MIB
    parts = found.weights + found.gradients + found.optimizer + found.activations + found.other
    assert parts == pytest.approx(found.total)
    assert found.available == 1e9


def test_two_ranks_share_the_pages_of_their_template() -> None:
    both = [torch_rank(16, shared=200 * MIB), torch_rank(16, shared=200 * MIB)]
    assert held_together(dict(enumerate(both))) == {CPU: float((2 * 316 - 200) * MIB)}


def test_what_other_programs_hold_of_a_gpu_counts_once() -> None:
    both = [
        RankRecord(devices={GPU: DeviceRecord(peak=100, reserved=80, used=500)}) for _ in range(2)
    ]
    assert held_together(dict(enumerate(both))) == {GPU: 2 * 100 + (500 - 2 * 80)}


def test_without_allocations_peaks_are_linear() -> None:
    def rank(batch: int) -> RankRecord:
        return RankRecord(devices={CPU: DeviceRecord(peak=(300 + 2 * batch) * MIB)})

    model = MemoryModel([run(8, rank(8)), run(64, rank(64))])
    assert not model.is_exact
    assert model.growth() == 2 * 56 * MIB
    assert model.peaks(1000)[CPU] == pytest.approx(2300 * MIB)
    (found,) = model.devices(1000, {})
    assert found.activations == pytest.approx(2000 * MIB)


def test_what_a_recipe_allocates_beside_pytorch_grows_too() -> None:
    def rank(batch: int) -> RankRecord:
        step = [(0, batch * 100), (0, -batch * 100)]
        return RankRecord(devices={CPU: DeviceRecord(peak=(300 + batch) * MIB, allocations=step)})

    model = MemoryModel([run(8, rank(8)), run(256, rank(256))])
    assert model.peaks(1024)[CPU] == pytest.approx((300 + 1024) * MIB, rel=0.01)


def test_runs_that_told_nothing_predict_what_was_held() -> None:
    spec = RunSpec(recipe="digits", strategy="torch/ddp", devices=("cpu:0",), batch_size=8)
    model = MemoryModel([ShortRun(spec=spec, memory={CPU: 300.0 * MIB})])
    assert model.peaks(64) == {CPU: 300.0 * MIB}


@pytest.mark.parametrize("limit", [400, 612, 1000])
def test_the_largest_batch_is_the_last_that_fits(limit: int) -> None:
    model = MemoryModel([run(8, torch_rank(8)), run(16, torch_rank(16))])
    available = {CPU: float(limit * MIB)}
    found = model.largest(available, 2, 100_000)
    assert found % 2 == 0
    assert model.peaks(found)[CPU] <= available[CPU]
    assert model.peaks(found + 8)[CPU] > available[CPU]
    assert model.largest(available, 2, 50) == 50


def test_nothing_fits_into_less_than_the_framework() -> None:
    model = MemoryModel([run(8, torch_rank(8)), run(16, torch_rank(16))])
    assert model.largest({CPU: 100.0 * MIB}, 1, 1000) == 0


def test_what_was_held_before_the_model_counts_the_template_once() -> None:
    ranks = [torch_rank(8, at_start=250 * MIB, shared=200 * MIB) for _ in range(2)]
    assert at_start(run(8, *ranks)) == (50 + 50 + 200) * MIB
