"""What is said of a device in words: its figures, its state, and who uses its memory."""

from __future__ import annotations

import math
import time

from engine.attribution import MemoryUse, RunUse, described
from engine.telemetry.alarm_text import hardware_reasons
from engine.telemetry.snapshot import DeviceSnapshot, GpuProcess, MigSlice

UNKNOWN = "n/a"
NEAR_SLOWDOWN = 5.0
"""Degrees Celsius below the slowdown threshold from which on a GPU counts as hot."""

GIB = 2**30
_ASLEEP = "Powered down. It is left alone, because asking would wake it."


def known(value: float | None) -> float | None:
    """`value`, or None where it is not a finite number."""
    return value if value is not None and math.isfinite(value) else None


def figure(value: float | None, unit: str) -> str:
    """`94 %`, or `n/a`."""
    return UNKNOWN if known(value) is None else f"{value:.0f} {unit}"


def gib(value: float | None) -> str:
    """`40.0 GiB`, or `n/a`."""
    return UNKNOWN if known(value) is None else f"{(value or 0) / GIB:.1f} GiB"


def of_total(used: float | None, total: float | None, unit: str = "GiB") -> str:
    """`40.0 of 80.0 GiB`; the total only where it is known."""
    if known(used) is None:
        return UNKNOWN
    text = f"{(used or 0) / GIB:.1f}"
    return f"{text} of {(total or 0) / GIB:.1f} {unit}" if known(total) else f"{text} {unit}"


def clock(seconds: float | None) -> str:
    """Local time of day, `14:02:11`; empty where it is not known."""
    if known(seconds) is None:
        return ""
    try:
        return time.strftime("%H:%M:%S", time.localtime(seconds))
    except (OverflowError, ValueError, OSError):
        return ""  # no calendar has that day


def title(device: DeviceSnapshot) -> str:
    """`GPU 1 NVIDIA H100`."""
    return f"GPU {device.label} {device.name}" if device.kind == "gpu" else device.name


def short_name(device: DeviceSnapshot) -> str:
    """`H100 80GB`: every GPU here is of the same vendor."""
    return device.name.removeprefix("NVIDIA ") or device.name


def temperature(device: DeviceSnapshot) -> str:
    """`83 / 90 °C`: now, and where it slows itself down."""
    return _against(device.temperature, device.temperature_slowdown, "°C")


def power(device: DeviceSnapshot) -> str:
    """`612 / 700 W`: now, and what it may take."""
    return _against(device.power, device.power_limit, "W")


def is_hot(device: DeviceSnapshot) -> bool:
    """Whether it is near the temperature at which it slows itself down."""
    now, limit = known(device.temperature), known(device.temperature_slowdown)
    return now is not None and limit is not None and now >= limit - NEAR_SLOWDOWN


def needs_a_look(device: DeviceSnapshot) -> bool:
    """Whether it is hot, or slowed down by more than its settings."""
    return is_hot(device) or bool(hardware_reasons(device))


def lost_since(device: DeviceSnapshot) -> str:
    """`lost since 14:02:11`."""
    since = clock(device.lost_since)
    return f"lost since {since}" if since else "lost"


def state(device: DeviceSnapshot) -> str:
    """Why there are no figures of it, in a sentence; empty while it answers."""
    if device.lost is not None:
        return f"✕ {lost_since(device).capitalize()}: {device.lost}"
    return f"☾ {_ASLEEP}" if device.asleep else ""


def divided(device: DeviceSnapshot) -> str:
    """`MIG ×3`: how many devices the GPU is divided into."""
    return f"MIG ×{len(device.slices)}"


def slice_line(slice: MigSlice) -> str:
    """`1g.10gb: 3.2 of 9.8 GiB`."""
    return f"{slice.name or slice.uuid}: {of_total(slice.memory_used, slice.memory_total)}"


def busy(use: MemoryUse | None) -> str:
    """`python of mia, 12.3 GiB`: who else works there; empty if nobody does."""
    if use is None or not use.is_busy:
        return ""
    if not use.others:
        return f"somebody, {gib(use.unnamed)}"
    first = max(use.others, key=lambda process: process.memory or 0)
    more = f" and {len(use.others) - 1} more" if len(use.others) > 1 else ""
    amount = use.of_others or use.unnamed or 0
    return f"{described(first)}{more}, {gib(amount)}"


def spoken(device: DeviceSnapshot, use: MemoryUse | None = None, old: float | None = None) -> str:
    """What a screen reader says of a row; `old` is the time of the figures, if they are no news."""
    if device.lost is not None:
        since = f" since {clock(device.lost_since)}" if clock(device.lost_since) else ""
        return f"{title(device)}, lost{since}: {device.lost}"
    parts = [title(device)]
    if old is not None:
        parts.append(f"no news since {clock(old)}")
    if device.asleep:
        return ", ".join([*parts, "asleep"])
    parts.append(f"utilisation {figure(device.utilisation, '%')}")
    parts.append(f"memory {of_total(device.memory_used, device.memory_total)}")
    if is_hot(device):
        parts.append(f"hot: {temperature(device)}")
    if device.throttle_reasons:
        parts.append(f"slowed down: {', '.join(device.throttle_reasons)}")
    if device.slices:
        parts.append(f"divided in {len(device.slices)}")
    if busy(use):
        parts.append(f"busy: {busy(use)}")
    return ", ".join(parts)


def tip(device: DeviceSnapshot, use: MemoryUse | None = None, old: float | None = None) -> str:
    """The tooltip of a row, in lines."""
    lines = [title(device)] + [device.id] * (device.kind == "gpu")
    if device.lost is not None:
        return "\n".join([*lines, state(device)])
    if old is not None:
        lines.append(f"No news since {clock(old)}: these are the last figures.")
    if device.asleep:
        return "\n".join([*lines, state(device)])
    for caption, text, field in (
        ("Utilisation", figure(device.utilisation, "%"), "utilisation"),
        ("Temperature", temperature(device), "temperature"),
        ("Power", power(device), "power"),
    ):
        if device.kind == "gpu" or text != UNKNOWN:
            lines.append(f"{caption} {with_reason(device, text, field)}")
    if device.throttle_reasons:
        lines.append(f"Slowed down: {', '.join(device.throttle_reasons)}")
    memory = of_total(device.memory_used, device.memory_total)
    memory = with_reason(device, memory, "memory_used")
    lines.append(f"Memory {memory}, by everybody on this machine")
    if use is not None:
        lines += memory_lines(use)
        if not use.others_known:
            lines.append(f"Processes {with_reason(device, UNKNOWN, 'processes')}")
    lines += [slice_line(slice) for slice in device.slices]
    return "\n".join(lines)


def with_reason(device: DeviceSnapshot, text: str, field: str) -> str:
    """`text`; where that is `n/a`, with the reason why."""
    reason = device.silent.get(field, "")
    return f"{text} ({reason})" if text == UNKNOWN and reason else text


def memory_lines(use: MemoryUse) -> list[str]:
    """Who uses how much of a GPU's memory, a line each."""
    lines = [f"– {run_line(each)}" for each in use.ours]
    by_size = sorted(use.others, key=lambda process: -(process.memory or 0))
    lines += [f"– {process_line(process)}" for process in by_size]
    if use.unnamed and use.unnamed >= 0.05 * GIB:
        lines.append(f"– nobody we can name: {gib(use.unnamed)}")
    if use.reserved:
        lines.append(f"– kept by the driver: {gib(use.reserved)}")
    if use.free is not None:
        lines.append(f"– free: {gib(use.free)}")
    return lines


def run_line(use: RunUse) -> str:
    """`digits · ddp × 2 · #7, rank 0 (pid 12): 40.0 GiB (tensors 30.1, cache 8.0, context 1.9)`."""
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
    amount = gib(use.total) if use.total is not None else "amount not available"
    split = f" ({', '.join(parts)})" if parts else ""
    return f"{worker.run}, rank {worker.rank} (pid {worker.pid}): {amount}{split}"


def process_line(process: GpuProcess) -> str:
    """`python of mia (pid 4242): 12.3 GiB`."""
    amount = gib(process.memory) if process.memory is not None else "amount not available"
    name = described(process)
    return f"{name}: {amount}" if not process.name else f"{name} (pid {process.pid}): {amount}"


def _against(now: float | None, limit: float | None, unit: str) -> str:
    if known(now) is None:
        return UNKNOWN
    return f"{now:.0f} / {limit:.0f} {unit}" if known(limit) else f"{now:.0f} {unit}"
