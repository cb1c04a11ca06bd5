"""Which snapshots of the devices become points of a run's curves."""

from __future__ import annotations

import math
from typing import Any

import pytest

from engine.diagnosis.device_metrics import DeviceRecorder
from engine.messages.events import Metrics, Points
from engine.runs.run_state import ENERGY
from engine.telemetry.snapshot import DeviceSnapshot, Snapshot

GPU, OTHER = "GPU-1111", "GPU-2222"
CPU_ROW = DeviceSnapshot(
    id="cpu",
    kind="cpu",
    label="CPU",
    name="A processor",
    memory_used=1000,
    utilisation=12.5,
    temperature=50.0,
)


def gpu(id: str = GPU, **known: Any) -> DeviceSnapshot:
    return DeviceSnapshot(id=id, kind="gpu", label="0", name="G", **known)


def recorded(recorder: DeviceRecorder, time: float, *devices: DeviceSnapshot) -> list[Points]:
    return recorder.metrics(Snapshot(time=time, devices=devices), step=7).points


def test_the_devices_of_the_run_and_no_others_become_points() -> None:
    known = {"temperature": 60.0, "power": 300.5, "clock": 1980.0, "fan": 40.0}
    snapshot = Snapshot(
        time=50.0,
        devices=(
            CPU_ROW,
            gpu(memory_used=2000, utilisation=90.0, **known),
            gpu(OTHER, memory_used=3000, utilisation=1.0),
        ),
    )
    assert DeviceRecorder((GPU,)).metrics(snapshot, step=7) == Metrics(
        50.0,
        50.0,
        [
            Points(f"device/{GPU}/utilisation", [7], [90.0]),
            Points(f"device/{GPU}/memory", [7], [2000.0]),
            Points(f"device/{GPU}/temperature", [7], [60.0]),
            Points(f"device/{GPU}/power", [7], [300.5]),
            Points(f"device/{GPU}/clock", [7], [1980.0]),
        ],
    )


def test_all_logical_cpus_are_the_one_processor() -> None:
    recorder = DeviceRecorder(("cpu:0", "cpu:1"))
    assert recorded(recorder, 50.0, CPU_ROW, gpu(utilisation=90.0)) == [
        Points("device/cpu/utilisation", [7], [12.5]),
        Points("device/cpu/memory", [7], [1000.0]),
    ]


def test_an_unknown_figure_has_no_curve_but_zero_is_a_value() -> None:
    recorder = DeviceRecorder((GPU,))
    for time in (50.0, 51.0):
        assert recorded(recorder, time, gpu(utilisation=0.0)) == [
            Points(f"device/{GPU}/utilisation", [7], [0.0])
        ]


def test_a_value_that_becomes_unknown_leaves_one_gap() -> None:
    recorder = DeviceRecorder((GPU,))
    recorded(recorder, 50.0, gpu(utilisation=90.0))
    [gap] = recorded(recorder, 51.0, gpu(lost="gone"))
    assert (gap.steps, len(gap.values)) == ([7], 1)
    assert math.isnan(gap.values[0])
    assert recorded(recorder, 52.0, gpu(lost="gone")) == []
    [back] = recorded(recorder, 53.0, gpu(utilisation=80.0))
    assert back.values == [80.0]


def test_a_long_time_without_snapshots_leaves_a_gap_but_a_slower_pace_does_not() -> None:
    recorder = DeviceRecorder((GPU,))
    recorded(recorder, 50.0, gpu(utilisation=90.0))
    assert recorded(recorder, 55.0, gpu(utilisation=80.0))[0].values == [80.0]
    [after] = recorded(recorder, 95.0, gpu(utilisation=70.0))
    assert after.steps == [7, 7]
    assert math.isnan(after.values[0])
    assert after.values[1] == 70.0


def test_the_same_snapshot_is_recorded_once() -> None:
    recorder = DeviceRecorder((GPU,))
    assert len(recorded(recorder, 50.0, gpu(utilisation=90.0))) == 1
    assert recorded(recorder, 50.0, gpu(utilisation=90.0)) == []


def test_a_device_that_is_not_in_the_snapshot_has_no_points() -> None:
    assert recorded(DeviceRecorder((GPU,)), 50.0) == []


def test_the_energy_is_the_power_over_the_time_in_which_it_was_seen() -> None:
    recorder = DeviceRecorder((GPU, OTHER), energy=1.0)

    def energy(time: float, *powers: float | None) -> list[float]:
        rows = [gpu(name, power=power) for name, power in zip((GPU, OTHER), powers, strict=True)]
        points = recorded(recorder, time, *rows)
        return [value for each in points if each.series == ENERGY for value in each.values]

    assert energy(100.0, 300.0, 100.0) == []
    assert energy(109.0, 500.0, 100.0) == [pytest.approx(1.0 + (400 + 100) * 9 / 3600)]
    assert energy(500.0, 500.0, 100.0) == [], "it was paused"
    assert energy(509.0, 500.0, None) == [pytest.approx(2.25 + 500 * 9 / 3600)]
    assert recorder.without_power == ""
    for time in (510.0, 511.0):
        energy(time, 500.0, None)
    assert recorder.without_power == "0"
