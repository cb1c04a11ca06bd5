"""Turns snapshots of the devices into points of the run's curves."""

from __future__ import annotations

import math
from collections.abc import Sequence

from engine.diagnosis.process_memory import Measurement
from engine.diagnosis.run_devices import RunDevices
from engine.messages.events import Metrics, Points
from engine.runs.run_state import ENERGY
from engine.spec.device_names import on_machine
from engine.telemetry.snapshot import DeviceSnapshot, Snapshot

_CURVES = {"utilisation": "utilisation", "memory": "memory_used"}
"""Field of a snapshot by name of a curve, for every device."""

_GPU_CURVES = _CURVES | {"temperature": "temperature", "power": "power", "clock": "clock"}
"""The same for a GPU. Values that change slowly have alarms instead of curves."""

PROCESS_MEMORY = "device/cpu/process_memory"
"""The bytes that the processes of a run on the CPU hold; `device/cpu/memory` is what all processes
of the machine use. On another machine of the run: `device/NAME/cpu/process_memory`."""


def process_memory(measured: Measurement, step: int, machine: str = "") -> Metrics:
    """Return the point at `step` of what the processes of a run on a machine held."""
    series = PROCESS_MEMORY.replace("cpu", on_machine(machine, "cpu"))
    points = Points(series, [step], [float(measured.size)], [measured.time])
    return Metrics(measured.time, measured.time, [points])


_SURE = 3
"""Snapshots without the power of a device, after which it is clear that it does not tell it."""

_GAP_SECONDS = 15.0
"""A longer time between two snapshots makes a gap in a curve."""


class DeviceRecorder:
    """Makes the new points of a run's devices. One NaN stands for each gap."""

    def __init__(self, devices: Sequence[str], energy: float = 0.0) -> None:
        """`devices` by their names in the spec; `energy`: watt-hours until now."""
        self._energy = energy
        self._power: dict[str, float] = {}
        """What each device has told in the last snapshot (W)."""

        self._silent: dict[str, tuple[int, str]] = {}
        """Snapshots in which a device has not told its power since it last did, and its label."""

        self._devices = RunDevices(devices)
        self._last_time = -math.inf
        self._has_value: dict[str, bool] = {}
        """For each series with points: whether its last point is a value and not a gap."""

    def metrics(self, snapshot: Snapshot, step: int) -> Metrics:
        """Make points at `step`: utilisation (percent), memory (bytes) and, for GPUs, temperature
        (°C), power (W) and clock (MHz). The same snapshot a second time makes none."""
        seconds = snapshot.time - self._last_time
        points: list[Points] = []
        if seconds != 0:
            rows = self._devices.rows(snapshot)
            for device in rows:
                points += self._points(device, step, after_gap=seconds > _GAP_SECONDS)
            points += self._use(rows, seconds, step)
        self._last_time = snapshot.time
        return Metrics(snapshot.time, snapshot.time, points)

    @property
    def without_power(self) -> str:
        """The label of a device that does not tell its power; empty: there is none."""
        return next((label for count, label in self._silent.values() if count >= _SURE), "")

    def _use(self, rows: Sequence[DeviceSnapshot], seconds: float, step: int) -> list[Points]:
        """Add the energy (Wh) since the last snapshot. A gap, such as a pause, adds none."""
        used = 0.0
        for device in rows:
            if device.power is None:
                self._power.pop(device.id, None)
                count, _ = self._silent.get(device.id, (0, ""))
                if device.lost is None:
                    self._silent[device.id] = count + 1, device.label
                continue
            self._silent.pop(device.id, None)
            if device.id in self._power and 0 < seconds <= _GAP_SECONDS:
                used += (self._power[device.id] + device.power) / 2 * seconds / 3600
            self._power[device.id] = device.power
        self._energy += used
        return [Points(ENERGY, [step], [self._energy])] if used else []

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
