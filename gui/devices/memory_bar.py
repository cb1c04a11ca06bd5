"""Divides the memory of a device into the segments of its bar; no painting."""

from __future__ import annotations

from typing import Literal, NamedTuple

from engine.telemetry.memory_attribution import MemoryUse
from engine.telemetry.snapshot import DeviceSnapshot
from gui.devices.device_text import finite

SegmentKind = Literal["tensors", "cache", "context", "ours", "others", "unnamed", "reserved"]


class Segment(NamedTuple):
    """A part of the bar."""

    kind: SegmentKind
    part: float
    """Part of the whole bar, above 0."""


def segments(device: DeviceSnapshot, use: MemoryUse | None) -> list[Segment]:
    """Return the segments of the device's memory from left to right; their sum is at most 1.

    While the users of the memory are unknown (`use` is None), all used memory counts as `ours`.
    """
    total = finite(device.memory_total)
    if not total or total < 0:
        return []
    if use is None:
        amounts: list[tuple[SegmentKind, float]] = [
            ("ours", finite(device.memory_used) or 0.0),
            ("reserved", finite(device.memory_reserved) or 0.0),
        ]
    else:
        amounts = [
            ("tensors", sum(each.tensors or 0 for each in use.ours)),
            ("cache", sum(each.cache or 0 for each in use.ours)),
            ("context", sum(each.context or 0 for each in use.ours)),
            ("ours", sum(each.rest for each in use.ours)),
            ("others", use.others_total),
            ("unnamed", _unnamed_bytes(device, use)),
            ("reserved", use.reserved or 0),
        ]
    found, rest = [], 1.0
    for kind, amount in amounts:
        part = min(amount / total, rest)
        if part > 0:
            found.append(Segment(kind, part))
            rest -= part
    return found


def filled(device: DeviceSnapshot) -> float | None:
    """Return the part of the memory in use, 0 to 1; None if unknown."""
    used, total = finite(device.memory_used), finite(device.memory_total)
    return None if used is None or not total or total < 0 else min(max(used / total, 0.0), 1.0)


def _unnamed_bytes(device: DeviceSnapshot, use: MemoryUse) -> float:
    """Return the bytes that belong to no known process. If the driver does not say, estimate
    them."""
    if use.unassigned is not None:
        return use.unassigned
    named = sum(each.total or 0 for each in use.ours) + use.others_total
    return max(0.0, (finite(device.memory_used) or 0.0) - named)
