"""Texts about a device: its figures, its state, and who uses its memory."""

from __future__ import annotations

import math

from engine.system import units
from engine.system.units import GIB
from engine.telemetry.alarm_text import hardware_reasons
from engine.telemetry.memory_attribution import MemoryUse, WorkerMemory, process_text
from engine.telemetry.snapshot import DeviceSnapshot, GpuProcess, MigSlice
from gui.style.device_labels import device_name

UNKNOWN = "n/a"
NEAR_SLOWDOWN = 5.0
"""A GPU is hot from this many degrees Celsius below its slowdown threshold."""


def finite(value: float | None) -> float | None:
    """Return `value`, or None if it is not a finite number."""
    return value if value is not None and math.isfinite(value) else None


def quantity(value: float | None, unit: str) -> str:
    """Return `94 %`, or `n/a`."""
    return UNKNOWN if finite(value) is None else f"{value:.0f} {unit}"


def gib(value: float | None) -> str:
    """Return `40.0 GiB`, or `n/a`."""
    return UNKNOWN if finite(value) is None else units.gib(value or 0)


def of_total(used: float | None, total: float | None, unit: str = "GiB") -> str:
    """Return `40.0 of 80.0 GiB`, without the total if that is unknown."""
    if finite(used) is None:
        return UNKNOWN
    amount = f"{(used or 0) / GIB:.1f}"
    if not finite(total):
        return f"{amount} {unit}"
    return f"{amount} of {(total or 0) / GIB:.1f} {unit}"


def clock(seconds: float | None) -> str:
    """Return the local time of day, `14:02:11`; empty if unknown."""
    if finite(seconds) is None:
        return ""
    try:
        return units.time_of_day(seconds or 0)
    except (OverflowError, ValueError, OSError):
        return ""  # the number is outside the calendar


def stale_text(since: float) -> str:
    """Return `no news since 14:02:11`."""
    return f"no news since {clock(since)}"


def title(device: DeviceSnapshot) -> str:
    """Return `GPU 1 NVIDIA H100`."""
    if device.kind != "gpu":
        return device.name
    return f"{device_name(device)} {device.name}"


def short_name(device: DeviceSnapshot) -> str:
    """Return `H100 80GB`; a card of another maker has the maker's name."""
    return device.name.removeprefix("NVIDIA ") or device.name


def temperature(device: DeviceSnapshot) -> str:
    """Return `83 / 90 °C`: the temperature, and the slowdown threshold."""
    return _against(device.temperature, device.temperature_slowdown, "°C")


def power(device: DeviceSnapshot) -> str:
    """Return `612 / 700 W`: the power, and its limit."""
    return _against(device.power, device.power_limit, "W")


def is_hot(device: DeviceSnapshot) -> bool:
    """Whether the temperature is near the slowdown threshold."""
    now, limit = finite(device.temperature), finite(device.temperature_slowdown)
    return now is not None and limit is not None and now >= limit - NEAR_SLOWDOWN


def needs_a_look(device: DeviceSnapshot) -> bool:
    """Whether the device is hot, or slowed down by its hardware."""
    return is_hot(device) or bool(hardware_reasons(device))


def lost_since(device: DeviceSnapshot) -> str:
    """Return `lost since 14:02:11`."""
    since = clock(device.lost_since)
    if not since:
        return "lost"
    return f"lost since {since}"


def state(device: DeviceSnapshot) -> str:
    """Return a sentence that says why there are no figures of the device; empty while it
    answers."""
    if device.lost is not None:
        return f"✕ {lost_since(device).capitalize()}: {device.lost}"
    why = "Powered down. It is not queried, because a query would wake it."
    return f"☾ {why}" if device.asleep else ""


def mig_text(device: DeviceSnapshot) -> str:
    """Return `MIG ×3`: the number of slices of the GPU."""
    return f"MIG ×{len(device.slices)}"


def slice_line(slice: MigSlice) -> str:
    """Return `1g.10gb: 3.2 of 9.8 GiB`."""
    return f"{slice.name or slice.uuid}: {of_total(slice.memory_used, slice.memory_total)}"


def busy_text(use: MemoryUse | None) -> str:
    """Return the processes of others on the device, `python of guest, 12.3 GiB`; empty if there are
    none."""
    if use is None or not use.is_busy:
        return ""
    if not use.others:
        return f"an unknown process, {gib(use.unassigned)}"
    first = max(use.others, key=lambda process: process.memory or 0)
    more = f" and {len(use.others) - 1} more" if len(use.others) > 1 else ""
    amount = gib(use.others_total or use.unassigned or 0)
    return f"{process_text(first)}{more}, {amount}"


def accessible_text(
    device: DeviceSnapshot, use: MemoryUse | None = None, stale_since: float | None = None
) -> str:
    """Return what a screen reader says about a row; `stale_since` is the time of stale figures."""
    if device.lost is not None:
        return f"{title(device)}, {lost_since(device)}: {device.lost}"
    parts = [title(device)]
    if stale_since is not None:
        parts.append(stale_text(stale_since))
    if device.asleep:
        return ", ".join([*parts, "asleep"])
    load, memory = (
        quantity(device.utilisation, "%"),
        of_total(device.memory_used, device.memory_total),
    )
    parts.append(f"utilisation {load}")
    parts.append(f"memory {memory}")
    if is_hot(device):
        parts.append(f"hot: {temperature(device)}")
    if device.throttle_reasons:
        reasons = ", ".join(device.throttle_reasons)
        parts.append(f"slowed down: {reasons}")
    if device.slices:
        parts.append(f"divided in {len(device.slices)}")
    if busy_text(use):
        parts.append(f"in use by {busy_text(use)}")
    return ", ".join(parts)


def tooltip(
    device: DeviceSnapshot, use: MemoryUse | None = None, stale_since: float | None = None
) -> str:
    """Return the tooltip of a row."""
    lines = [title(device)] + [device.id] * (device.kind == "gpu")
    if device.lost is not None:
        return "\n".join([*lines, state(device)])
    if stale_since is not None:
        lines.append(f"No news since {clock(stale_since)}: these are the last figures.")
    if device.asleep:
        return "\n".join([*lines, state(device)])
    for caption, text, field in (
        ("Utilisation", quantity(device.utilisation, "%"), "utilisation"),
        ("Temperature", temperature(device), "temperature"),
        ("Power", power(device), "power"),
    ):
        if device.kind == "gpu" or text != UNKNOWN:
            lines.append(f"{caption} {with_reason(device, text, field)}")
    if device.throttle_reasons:
        reasons = ", ".join(device.throttle_reasons)
        lines.append(f"Slowed down: {reasons}")
    memory = of_total(device.memory_used, device.memory_total)
    memory = with_reason(device, memory, "memory_used")
    lines.append(f"Memory {memory}, of all processes on this machine")
    if use is not None:
        lines += memory_lines(use)
        if not use.others_known:
            unknown = with_reason(device, UNKNOWN, "processes")
            lines.append(f"Processes {unknown}")
    lines += [slice_line(slice) for slice in device.slices]
    return "\n".join(lines)


def with_reason(device: DeviceSnapshot, text: str, field: str) -> str:
    """Return `text`; if it is `n/a`, with the reason."""
    reason = device.silent.get(field, "")
    return f"{text} ({reason})" if text == UNKNOWN and reason else text


def memory_lines(use: MemoryUse) -> list[str]:
    """Return how much of a GPU's memory each user has, one line each."""
    lines = [f"– {run_line(each)}" for each in use.ours]
    by_size = sorted(use.others, key=lambda process: -(process.memory or 0))
    lines += [f"– {process_line(process)}" for process in by_size]
    if use.unassigned and use.unassigned >= 0.05 * GIB:
        lines.append(f"– an unknown process: {gib(use.unassigned)}")
    if use.reserved:
        lines.append(f"– reserved by driver: {gib(use.reserved)}")
    if use.free is not None:
        lines.append(f"– free: {gib(use.free)}")
    return lines


def run_line(use: WorkerMemory) -> str:
    """Return `digits · ddp × 2 · #7, rank 0 (pid 12): 40.0 GiB (tensors 30.1, cache 8.0, context
    1.9)`."""
    worker = use.worker
    parts = [
        f"{name} {amount / GIB:.1f}"
        for name, amount in (
            ("tensors", use.tensors),
            ("cache", use.cache),
            ("context", use.context),
        )
        if amount is not None
    ]
    split = f" ({', '.join(parts)})" if parts else ""
    who = f"{worker.run}, rank {worker.rank} (pid {worker.pid}): {_amount(use.total)}"
    return who + split


def process_line(process: GpuProcess) -> str:
    """Return `python of guest (pid 4242): 12.3 GiB`."""
    name, amount = process_text(process), _amount(process.memory)
    if not process.name:
        return f"{name}: {amount}"
    return f"{name} (pid {process.pid}): {amount}"


def _amount(value: float | None) -> str:
    return "amount not available" if value is None else gib(value)


def _against(now: float | None, limit: float | None, unit: str) -> str:
    if finite(now) is None:
        return UNKNOWN
    return f"{now:.0f} / {limit:.0f} {unit}" if finite(limit) else f"{now:.0f} {unit}"
