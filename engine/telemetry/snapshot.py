"""One frozen picture of all devices of this machine, as the sampling helper prints it."""

from __future__ import annotations

from typing import Literal

import msgspec


class DeviceSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """What one device is doing. `None`: the driver does not say; never 0 for unknown."""

    id: str
    """`cpu`, or the GPU's full UUID: the key under which a device is remembered."""

    kind: Literal["cpu", "gpu"]
    label: str
    """Short name for the eye: `CPU`, or the GPU's number in PCI order."""

    name: str
    memory_total: int | None = None
    """Bytes."""

    memory_used: int | None = None
    """Bytes, by everybody on the machine."""

    utilisation: float | None = None
    """Percent of time with work in the last sampling window."""

    temperature: float | None = None
    """Degrees Celsius."""

    power: float | None = None
    """Watts."""

    pci_bus: str | None = None
    lost: str | None = None
    """Why the device does not answer any more, or None while it does."""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All devices at one time."""

    time: float
    """Seconds since the epoch."""

    devices: tuple[DeviceSnapshot, ...]
    gpu_note: str = ""
    """Why no GPU is listed, in a sentence; empty when the driver answers."""
