"""Turns pictures of the devices into points of the run's curves."""

from __future__ import annotations

import math
from collections.abc import Sequence

from engine.messages.events import Metrics, Points
from engine.spec.device_names import is_logical_cpu
from engine.telemetry.snapshot import DeviceSnapshot, Snapshot

_CURVES = {"utilisation": "utilisation", "memory": "memory_used"}
"""Name of a curve -> field of a snapshot, for every device."""

_GPU_CURVES = _CURVES | {"temperature": "temperature", "power": "power", "clock": "clock"}
"""What is sampled every second. What changes more slowly is told by alarms, not drawn."""

_LONGEST_STEP = 15.0
"""Seconds between two snapshots beyond which nobody looked: the curves are broken there."""


def run_device_ids(devices: Sequence[str]) -> frozenset[str]:
    """The devices of a run as a snapshot names them.

    The logical CPU devices are one device there, `cpu`: the machine's processor.
    """
    return frozenset("cpu" if is_logical_cpu(device) else device for device in devices)


class DeviceRecorder:
    """Says what is new of a run's devices. NaN stands for what is not known, once per gap."""

    def __init__(self, devices: Sequence[str]) -> None:
        """`devices` by their names in the spec."""
        self._wanted = run_device_ids(devices)
        self._last = -math.inf
        self._open: dict[str, bool] = {}
        """By series that has points: whether the last one is a value."""

    def metrics(self, snapshot: Snapshot, step: int) -> Metrics:
        """Utilisation (percent), memory (bytes) and, of GPUs, temperature (°C), power (W) and clock
        (MHz), taken at `step`; a snapshot that was seen before has no points."""
        passed = snapshot.time - self._last
        points: list[Points] = []
        if passed != 0:
            for device in snapshot.devices:
                if device.id in self._wanted:
                    points += self._points(device, step, missed=passed > _LONGEST_STEP)
        self._last = snapshot.time
        return Metrics(snapshot.time, snapshot.time, points)

    def _points(self, device: DeviceSnapshot, step: int, *, missed: bool) -> list[Points]:
        points = []
        for name, field in (_GPU_CURVES if device.kind == "gpu" else _CURVES).items():
            series = f"device/{device.id}/{name}"
            value = getattr(device, field)
            was_open = self._open.get(series, False)
            values = [math.nan] if was_open and (missed or value is None) else []
            if value is not None:
                values.append(float(value))
            if values:
                points.append(Points(series, [step] * len(values), values))
                self._open[series] = value is not None
        return points
