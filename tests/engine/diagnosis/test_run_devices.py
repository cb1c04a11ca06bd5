"""A run on one slice of a divided GPU: its curves, its alarms, and the loss of its card."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.diagnosis.device_watch import STEP_TIMEOUT, DeviceWatch, lost_device_failure
from engine.diagnosis.run_devices import RunDevices
from engine.messages.events import Alarm, Event, Metrics, Progress, TrainingStarted
from engine.runs.run_state import RunStatus, fold
from engine.spec.strategy import WorkerPlan
from engine.telemetry.snapshot import DeviceSnapshot, MigSlice, Snapshot
from gui.style.device_labels import device_labels, name_devices
from tests.engine.telemetry.conftest import FIRST, SECOND, meet
from tests.support.fake_nvml import GPU_IS_LOST, FakeNvml
from tests.support.nvml_on_demand import NvmlOnDemand

GIB = 2**30
SLICE = "MIG-gpu0-1"
"""The second slice of the card that the driver lists first."""


class SliceRun:
    """A run that trains on SLICE, with the snapshots of a helper that meets the double."""

    def __init__(self, nvml: NvmlOnDemand) -> None:
        self._nvml = nvml
        self.now = 100.0
        self.watch = DeviceWatch((SLICE,), lambda: self.now)
        self.status = RunStatus()
        for event in (TrainingStarted(0, 10, 3, 1, 1234), Progress(1, 3, 1.0, 0.01, 9.0)):
            self.watch.add_event(event)
            self.status = fold(self.status, event, self.now)

    def see(self, seconds: float = 1.0) -> list[Event]:
        """Take a snapshot, `seconds` later."""
        self.now += seconds
        sample = self._nvml.sample(int(self.now))
        snapshot = Snapshot(time=1e9 + self.now, devices=sample.devices, gpu_note=sample.note)
        return self.watch.add_snapshot(snapshot, self.status)

    def curves(self) -> dict[str, float]:
        """The points of the next snapshot."""
        [metrics] = [event for event in self.see() if isinstance(event, Metrics)]
        return {points.series: points.values[-1] for points in metrics.points}

    def alarms_of_6_s(self) -> list[tuple[str, str, bool]]:
        """The alarms of six snapshots: the slices are looked at every 5 s."""
        return [alarm for _ in range(6) for alarm in self.alarms()]

    def alarms(self) -> list[tuple[str, str, bool]]:
        return [(e.device, e.kind, e.raised) for e in self.see() if isinstance(e, Alarm)]


@pytest.fixture
def machine(processes: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """A driver of two cards, of which the first is divided."""
    fake = FakeNvml(tmp_path)
    meet(fake, monkeypatch)
    fake.add_gpu(FIRST, pci_bus="00000000:3B:00.0")
    fake.add_gpu(SECOND, pci_bus="00000000:C1:00.0")
    fake.divide("gpu0", "1g.10gb", "2g.20gb")
    return fake


@pytest.fixture
def run(machine: FakeNvml, tmp_path: Path) -> Iterator[SliceRun]:
    with NvmlOnDemand(tmp_path / "pci") as nvml:
        yield SliceRun(nvml)


def test_a_run_on_a_slice_has_the_curves_of_its_slice_and_of_its_card(run: SliceRun) -> None:
    assert run.curves() == {
        f"device/{SLICE}/memory": 5 * GIB,
        f"device/{SLICE}/temperature": 61.0,
        f"device/{SLICE}/clock": 1755.0,
    }


def test_the_memory_of_the_slice_and_the_heat_of_its_card_are_alarms(
    run: SliceRun, machine: FakeNvml
) -> None:
    assert run.alarms() == []
    machine.answer("gpu0.mig1", "nvmlDeviceGetMemoryInfo_v2", 20 * GIB, 0, 0, 20 * GIB)
    machine.answer("gpu0", "nvmlDeviceGetTemperatureV", 86)
    machine.answer("gpu1", "nvmlDeviceGetTemperatureV", 86)  # not a device of this run
    raised = run.alarms_of_6_s()
    assert sorted(raised) == [(SLICE, "hot", True), (SLICE, "memory", True)]
    machine.answer("gpu0", "nvmlDeviceGetTemperatureV", 60)
    machine.answer("gpu0.mig1", "nvmlDeviceGetMemoryInfo_v2", 20 * GIB, 0, 19 * GIB, GIB)
    cleared = run.alarms_of_6_s()
    assert sorted(cleared) == [(SLICE, "hot", False), (SLICE, "memory", False)]


def test_a_card_that_is_lost_ends_the_run_on_its_slice(run: SliceRun, machine: FakeNvml) -> None:
    run.see()
    machine.fail("gpu0", "*", GPU_IS_LOST)
    assert run.alarms() == [(SLICE, "lost", True)]
    run.see()
    assert run.watch.fatal_lost_device(run.status) is None
    run.now += STEP_TIMEOUT
    lost = run.watch.fatal_lost_device(run.status)
    assert lost is not None
    failure = lost_device_failure(lost, run.status, (WorkerPlan(0, (SLICE,)),), {})
    assert (failure.rank, failure.device) == (0, SLICE)
    assert failure.message.startswith("GPU 0 (2g.20gb) stopped answering")


def test_a_slice_that_is_taken_away_is_lost_and_comes_back(
    run: SliceRun, machine: FakeNvml
) -> None:
    run.see()
    machine.divide("gpu0", "1g.10gb")
    assert run.alarms_of_6_s() == [(SLICE, "lost", True)]
    machine.divide("gpu0", "1g.10gb", "2g.20gb")
    assert run.alarms_of_6_s() == [(SLICE, "lost", False)]


def card(**known: object) -> Snapshot:
    row = {"id": FIRST, "kind": "gpu", "label": "0", "name": "G", "index": 0} | known
    return Snapshot(time=1.0, devices=(DeviceSnapshot(**row),))  # type: ignore[arg-type]


PARTS = (MigSlice(uuid=SLICE, name="1g.10gb", memory_total=10, memory_used=3),)


@pytest.mark.parametrize(
    "known", [{"asleep": True}, {"silent": {"slices": "no permission"}}], ids=["asleep", "silent"]
)
def test_a_card_that_does_not_tell_its_slices_has_lost_none(known: dict[str, object]) -> None:
    devices = RunDevices((SLICE,))
    assert devices.rows(card()) == (), "it is not known where the slice is"
    [row] = devices.rows(card(slices=PARTS))
    assert (row.id, row.memory_used, row.lost) == (SLICE, 3, None)
    [row] = devices.rows(card(**known))
    assert (row.id, row.memory_used, row.lost) == (SLICE, None, None)


def test_the_window_names_a_slice_in_its_curves_and_in_sentences() -> None:
    labels = device_labels(card(slices=PARTS))
    assert labels[SLICE] == ("GPU 0 (1g.10gb)", 0)
    old = f"MIG-{FIRST}/1/0"  # the form of older drivers
    names = {FIRST: "GPU 0", old: "GPU 0 (1g.10gb)"}
    assert name_devices(f"{old} on {FIRST}", names) == "GPU 0 (1g.10gb) on GPU 0"
