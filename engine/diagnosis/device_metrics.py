"""Turns snapshots of the devices into points of the run's curves."""

from __future__ import annotations

import math
from collections.abc import Sequence

from engine.messages.events import Metrics, Points
from engine.spec.device_names import is_logical_cpu
from engine.telemetry.snapshot import DeviceSnapshot, Snapshot

_CURVES = {"utilisation": "utilisation", "memory": "memory_used"}
"""Field of a snapshot by name of a curve, for every device."""

_GPU_CURVES = _CURVES | {"temperature": "temperature", "power": "power", "clock": "clock"}
"""The same for a GPU. Values that change slowly have alarms instead of curves."""

_GAP_SECONDS = 15.0
"""A longer time between two snapshots makes a gap in a curve."""


def run_device_ids(devices: Sequence[str]) -> frozenset[str]:
    """Return the ids that the devices of a run have in a snapshot.

    All logical CPU devices are one device there: `cpu`, the machine's processor.
    """
    return frozenset("cpu" if is_logical_cpu(device) else device for device in devices)


class DeviceRecorder:
    """Makes the new points of a run's devices. One NaN stands for each gap."""

    def __init__(self, devices: Sequence[str]) -> None:
        """`devices` by their names in the spec."""
        self._run_devices = run_device_ids(devices)
        self._last_time = -math.inf
        self._has_value: dict[str, bool] = {}
        """For each series with points: whether its last point is a value and not a gap."""

    def metrics(self, snapshot: Snapshot, step: int) -> Metrics:
        """Make points at `step`: utilisation (percent), memory (bytes) and, for GPUs, temperature
        (°C), power (W) and clock (MHz). The same snapshot a second time makes none."""
        seconds = snapshot.time - self._last_time
        points: list[Points] = []
        if seconds != 0:
            for device in snapshot.devices:
                if device.id in self._run_devices:
                    points += self._points(device, step, after_gap=seconds > _GAP_SECONDS)
        self._last_time = snapshot.time
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
