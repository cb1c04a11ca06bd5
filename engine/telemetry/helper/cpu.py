"""Samples the CPU and the memory of this machine with psutil."""

from __future__ import annotations

import platform
from pathlib import Path

import psutil

from engine.telemetry.snapshot import DeviceSnapshot

CPU_ID = "cpu"

_SENSORS = ("coretemp", "k10temp", "zenpower", "cpu_thermal")
"""Names of Linux drivers that report the temperature of a CPU."""

_NO_SENSOR = "the system offers no sensor"


class Cpu:
    """The CPU as one device."""

    def __init__(self) -> None:
        self._name = cpu_name()
        # Utilisation is measured between two calls, so the first call measures for 0.1 s.
        self._window: float | None = 0.1

    def sample(self) -> DeviceSnapshot:
        """Return the CPU's snapshot; the first call takes 0.1 s."""
        utilisation = psutil.cpu_percent(interval=self._window)
        self._window = None
        memory = psutil.virtual_memory()
        temperature = _temperature()
        return DeviceSnapshot(
            id=CPU_ID,
            kind="cpu",
            label="CPU",
            name=self._name,
            memory_total=memory.total,
            memory_used=memory.total - memory.available,
            memory_free=memory.available,
            utilisation=utilisation,
            temperature=temperature,
            silent={} if temperature is not None else {"temperature": _NO_SENSOR},
        )


def cpu_name() -> str:
    """Return the model of the processor, or its architecture."""
    try:
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name" and value.strip():
                return value.strip()
    except OSError:
        pass  # not Linux
    return platform.processor() or platform.machine() or "CPU"


def _temperature() -> float | None:
    read = getattr(psutil, "sensors_temperatures", None)  # Linux and FreeBSD only
    found = read() if read else {}
    for sensor in _SENSORS:
        if found.get(sensor):
            return float(found[sensor][0].current)
    return None
