"""With which batches a prediction of memory measures, and what a GPU has for a run."""

from __future__ import annotations

import pytest

from engine.planning.memory import memory_estimate
from engine.planning.short_run import ShortRun, held_together
from engine.spec.run_spec import RunSpec
from engine.telemetry.snapshot import DeviceSnapshot, Snapshot
from engine.training.probes.memory_record import DeviceRecord, RankRecord

MIB = 2**20
GPU = "GPU-1"


def measured(monkeypatch: pytest.MonkeyPatch, device: str, asked: int, full: int = 0) -> list[int]:
    """Return the batches of the short runs; those from `full` samples on are out of memory."""
    batches: list[int] = []

    def run(spec: RunSpec, batch: int, _: object) -> ShortRun:
        batches.append(batch)
        ranks: dict[int, RankRecord] = {}
        if not full or batch < full:
            step = [(0, batch * MIB), (0, -batch * MIB)]
            held = DeviceRecord(peak=(300 + batch) * MIB, allocations=step)
            ranks[0] = RankRecord(devices={device.split(":")[0]: held})
        problem = "" if ranks else "It is out of memory."
        return ShortRun(
            spec=RunSpec(
                recipe="digits", strategy="torch/single", devices=(device,), batch_size=batch
            ),
            ranks=ranks,
            memory=held_together(ranks),
            problem=problem,
            is_out_of_memory=bool(problem),
        )

    monkeypatch.setattr(memory_estimate, "_measured", run)
    spec = RunSpec(recipe="digits", strategy="torch/single", devices=(device,), batch_size=asked)
    model, last = memory_estimate.measure(spec, lambda news: None, lambda: False)
    assert model is not None
    assert model.measured == last.spec.batch_size
    return batches


def test_a_gpu_is_measured_near_the_batch_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert measured(monkeypatch, GPU, 4096) == [8, 16, 1024]
    assert measured(monkeypatch, GPU, 4096, full=1000) == [8, 16, 1024]
    assert measured(monkeypatch, GPU, 64) == [8, 16]
    assert measured(monkeypatch, GPU, 16) == [8, 16]


def test_what_the_driver_keeps_of_a_gpu_is_not_available(monkeypatch: pytest.MonkeyPatch) -> None:
    device = DeviceSnapshot(
        id=GPU, kind="gpu", label="0", name="G", memory_total=1000, memory_reserved=60
    )
    shown = Snapshot(time=0.0, devices=(device,))
    monkeypatch.setattr(memory_estimate, "snapshot_once", lambda: shown)
    spec = RunSpec(recipe="digits", strategy="torch/single", devices=(GPU,))
    assert memory_estimate.available_memory(spec, 0) == {GPU: 940.0}
