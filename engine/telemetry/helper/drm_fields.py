"""The fields of an AMD or Intel GPU: the file of its driver (amdgpu, xe, i915) behind each field.

Linux describes these files in its documents of drivers (`gpu/amdgpu`, `gpu/xe`) and of hwmon.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path

from engine.telemetry.helper.nvml_errors import NoValue
from engine.telemetry.helper.nvml_fields import Answers

_MICRO = 1e-6
_MILLI = 1e-3
_WHOLE = ("memory_total", "memory_used", "memory_free", "ecc_corrected", "ecc_uncorrected")
_NOT_TOLD = "Linux does not tell it of this card"

_AMD_POWER = ("power1_average", "power1_input")
"""Cards average over a time, or measure: each has one of the two."""

_INTEL_CLOCKS = ("tile0/gt0/freq0/act_freq", "drm/card*/gt/gt0/rps_act_freq_mhz")
_INTEL_IDLE = ("tile0/gt0/gtidle/idle_residency_ms", "drm/card*/gt/gt0/rc6_residency_ms")
_INTEL_LIMITS = ("power1_max", "power1_cap")
"""Files of xe, then of i915."""


class Counters:
    """The counters of one GPU at its last sample: their changes are rates."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[float, float]] = {}

    def rate(self, name: str, value: float | None, now: float) -> float | None:
        """Return the change per second since the last call; None at the first, or if it fell."""
        if value is None:
            return None
        time, before = self._last.get(name, (now, value))
        self._last[name] = now, value
        return (value - before) / (now - time) if now > time and value >= before else None


def read_number(file: Path) -> float | None:
    """Return the number in a file of `/sys`; None if it is not there or holds no number."""
    try:
        return as_number(file.read_text())
    except (OSError, ValueError):  # not there, refused, or no text
        return None


def as_number(text: str) -> float | None:
    """Return the number that a text is; None if it is none, or not a finite one."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def read_text(file: Path) -> str:
    """Return the line in a file of `/sys`; empty if it cannot be read."""
    try:
        return file.read_text(errors="replace").strip()
    except OSError:
        return ""


def sensor_folder(device: Path) -> Path | None:
    """Return the folder with the sensors of the card with the folder `device`, if it has them."""
    return next(iter(matches(device, "hwmon/hwmon*")), None)


def matches(folder: Path, pattern: str) -> list[Path]:
    """Return what is in a folder of Linux; nothing of one that goes away meanwhile."""
    try:
        return sorted(folder.glob(pattern))
    except OSError:
        return []


def read_amd(device: Path, counters: Counters, now: float) -> Answers:
    """Return the fields of a card of amdgpu; `device` is its folder in `/sys`."""
    sensors = sensor_folder(device)
    total = read_number(device / "mem_info_vram_total") or None
    used = read_number(device / "mem_info_vram_used")
    used = used if total and used is not None and used <= total else None
    heat = _labelled(sensors, "temp", "junction", "edge")
    errors = _memory_errors(device)
    return _answers(
        memory_total=total,
        memory_used=used,
        memory_free=total - used if total and used is not None else None,
        utilisation=read_number(device / "gpu_busy_percent"),
        temperature=_scaled(heat, "input", _MILLI),
        temperature_slowdown=_scaled(heat, "crit", _MILLI),
        power=_first(_sensor(sensors, name, _MICRO) for name in _AMD_POWER),
        power_limit=_sensor(sensors, "power1_cap", _MICRO),
        clock=_scaled(_labelled(sensors, "freq", "sclk"), "input", _MICRO),
        memory_clock=_scaled(_labelled(sensors, "freq", "mclk"), "input", _MICRO),
        fan=_percent(_sensor(sensors, "pwm1"), _sensor(sensors, "pwm1_max")),
        ecc_corrected=errors("ce"),
        ecc_uncorrected=errors("ue"),
    )


def read_intel(device: Path, counters: Counters, now: float) -> Answers:
    """Return the fields of a card of xe or i915; `now` is in seconds.

    Power is the change of the counter of energy. Utilisation is the share of time in which the
    card does not sleep between two kernels: at least the share with work.
    """
    sensors = sensor_folder(device)
    idle = _first(read_number(file) for file in _glob(device, _INTEL_IDLE))
    idle_milliseconds = counters.rate("idle", idle, now)
    joules = _sensor(sensors, "energy1_input", _MICRO)
    return _answers(
        memory_total=None,
        memory_used=None,
        memory_free=None,
        utilisation=None if idle_milliseconds is None else max(0.0, 100 - idle_milliseconds / 10),
        temperature=_scaled(_labelled(sensors, "temp", "pkg", ""), "input", _MILLI),
        power=counters.rate("energy", joules, now),
        power_limit=_first(_sensor(sensors, name, _MICRO) for name in _INTEL_LIMITS),
        clock=_first(read_number(file) for file in _glob(device, _INTEL_CLOCKS)),
    )


def _answers(**found: float | None) -> Answers:
    answers = Answers()
    for name, value in found.items():
        if value is None:
            answers.put(name, NoValue(_NOT_TOLD))
        else:
            answers.put(name, int(value) if name in _WHOLE else value)
    return answers


def _glob(folder: Path, patterns: Iterable[str]) -> list[Path]:
    return [file for pattern in patterns for file in matches(folder, pattern)]


def _first(values: Iterable[float | None]) -> float | None:
    return next((value for value in values if value is not None), None)


def _sensor(sensors: Path | None, name: str, scale: float = 1.0) -> float | None:
    value = read_number(sensors / name) if sensors else None
    return None if value is None else value * scale


def _labelled(sensors: Path | None, kind: str, *labels: str) -> Path | None:
    """Return what the names of a sensor's files begin with, by its label; the best label first.

    An empty label is that of a sensor without one.
    """
    found: dict[str, Path] = {}
    for file in matches(sensors, f"{kind}*_input") if sensors else ():
        base = file.with_name(file.name.removesuffix("_input"))
        found.setdefault(read_text(base.with_name(f"{base.name}_label")), base)
    return next((found[label] for label in labels if label in found), None)


def _scaled(base: Path | None, kind: str, scale: float) -> float | None:
    return None if base is None else _sensor(base.parent, f"{base.name}_{kind}", scale)


def _percent(part: float | None, whole: float | None) -> float | None:
    return 100 * part / whole if part is not None and whole else None


def _memory_errors(device: Path) -> Callable[[str], float | None]:
    """Return a function of `ue` or `ce`, the names of the counts in `umc_err_count`."""
    lines = read_text(device / "ras" / "umc_err_count").splitlines()
    counts = {line.partition(":")[0].strip(): line.partition(":")[2].strip() for line in lines}
    return lambda key: as_number(counts.get(key, ""))
