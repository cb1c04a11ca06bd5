"""Turns pictures of the devices into points of the run's curves."""

from __future__ import annotations

from collections.abc import Sequence

from engine.device_names import is_logical_cpu
from engine.events import Metrics, Points
from engine.telemetry.snapshot import Snapshot


def device_points(snapshot: Snapshot, devices: Sequence[str], step: int) -> Metrics:
    """Utilisation (percent) and memory (bytes) of the run's `devices`, taken at `step`.

    The logical CPU devices are one device here, `cpu`: the machine's processor.
    """
    wanted = {"cpu" if is_logical_cpu(device) else device for device in devices}
    points = []
    for device in snapshot.devices:
        if device.id not in wanted:
            continue
        for name, value in (
            ("utilisation", device.utilisation),
            ("memory", device.memory_used),
        ):
            if value is not None:
                points.append(Points(f"device/{device.id}/{name}", [step], [float(value)]))
    return Metrics(snapshot.time, snapshot.time, points)
