"""Which pictures of the devices become points of a run's curves."""

from __future__ import annotations

from engine.events import Metrics, Points
from engine.supervisor.device_recorder import device_points
from engine.telemetry.snapshot import DeviceSnapshot, Snapshot

GPU, OTHER = "GPU-1111", "GPU-2222"
CPU_ROW = DeviceSnapshot(
    id="cpu", kind="cpu", label="CPU", name="A processor", memory_used=1000, utilisation=12.5
)


def gpu(id: str, memory_used: int | None, utilisation: float | None) -> DeviceSnapshot:
    return DeviceSnapshot(
        id=id, kind="gpu", label="0", name="G", memory_used=memory_used, utilisation=utilisation
    )


def test_the_devices_of_the_run_and_no_others_become_points() -> None:
    snapshot = Snapshot(time=50.0, devices=(CPU_ROW, gpu(GPU, 2000, 90.0), gpu(OTHER, 3000, 1.0)))
    assert device_points(snapshot, (GPU,), step=7) == Metrics(
        50.0,
        50.0,
        [
            Points(f"device/{GPU}/utilisation", [7], [90.0]),
            Points(f"device/{GPU}/memory", [7], [2000.0]),
        ],
    )


def test_all_logical_cpus_are_the_one_processor() -> None:
    snapshot = Snapshot(time=50.0, devices=(CPU_ROW, gpu(GPU, 2000, 90.0)))
    assert device_points(snapshot, ("cpu:0", "cpu:1"), step=7).points == [
        Points("device/cpu/utilisation", [7], [12.5]),
        Points("device/cpu/memory", [7], [1000.0]),
    ]


def test_what_the_driver_does_not_say_is_no_point_but_zero_is_one() -> None:
    snapshot = Snapshot(time=50.0, devices=(gpu(GPU, None, 0.0),))
    assert device_points(snapshot, (GPU,), step=7).points == [
        Points(f"device/{GPU}/utilisation", [7], [0.0])
    ]


def test_a_device_that_is_not_in_the_picture_has_no_points() -> None:
    assert device_points(Snapshot(time=50.0, devices=()), (GPU,), step=7).points == []
