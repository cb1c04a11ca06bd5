"""Turns snapshots of the devices into points of the run's curves."""

from __future__ import annotations

import math
from collections.abc import Sequence

from engine.messages.events import Metrics, Points
from engine.spec.device_names import is_logical_cpu
from engine.telemetry.snapshot import DeviceSnapshot, Snapshot

_CURVES = {"utilisation": "utilisation", "memory": "memory_used"}
"""Name of a curve -> field of a snapshot, for every device."""

_GPU_CURVES = _CURVES | {"temperature": "temperature", "power": "power", "clock": "clock"}
"""What is sampled every second. Figures that change more slowly have alarms, not curves."""

_LONGEST_STEP = 15.0
"""Seconds between two snapshots beyond which a curve gets a gap."""


def run_device_ids(devices: Sequence[str]) -> frozenset[str]:
    """The devices of a run by their ids in a snapshot.

    There, all logical CPU devices are one device, `cpu`: the machine's processor.
    """
    return frozenset("cpu" if is_logical_cpu(device) else device for device in devices)


class DeviceRecorder:
    """Makes the new points of a run's devices. One NaN stands for each gap."""

    def __init__(self, devices: Sequence[str]) -> None:
        """`devices` by their names in the spec."""
        self._run_devices = run_device_ids(devices)
        self._last = -math.inf
        self._has_value: dict[str, bool] = {}
        """By series that has points: whether the last one is a value, not a gap."""

    def metrics(self, snapshot: Snapshot, step: int) -> Metrics:
        """Make points at `step`: utilisation (percent), memory (bytes) and, for GPUs, temperature
        (°C), power (W) and clock (MHz). A snapshot that was passed before makes none."""
        passed = snapshot.time - self._last
        points: list[Points] = []
        if passed != 0:
            for device in snapshot.devices:
                if device.id in self._run_devices:
                    points += self._points(device, step, after_gap=passed > _LONGEST_STEP)
        self._last = snapshot.time
        return Metrics(snapshot.time, snapshot.time, points)

    def _points(self, device: DeviceSnapshot, step: int, *, after_gap: bool) -> list[Points]:
        points = []
        for name, field in (_GPU_CURVES if device.kind == "gpu" else _CURVES).items():
            series = f"device/{device.id}/{name}"
            value = getattr(device, field)
            had_value = self._has_value.get(series, False)
            values = [math.nan] if had_value and (after_gap or value is None) else []
            if value is not None:
                values.append(float(value))
            if values:
                points.append(Points(series, [step] * len(values), values))
                self._has_value[series] = value is not None
        return points
