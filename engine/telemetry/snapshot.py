"""A snapshot of all devices of this machine, as the telemetry helper prints it."""

from __future__ import annotations

from typing import Literal

import msgspec


class GpuProcess(msgspec.Struct, frozen=True):
    """A process of any user that uses a GPU."""

    pid: int
    name: str = ""
    """Name of its program; empty if it is not known."""

    user: str = ""
    memory: int | None = None
    """Bytes on this GPU; None if the driver does not report it (Windows, containers)."""

    started: float | None = None
    """Start time in seconds since the epoch; with the pid it identifies the process."""


class MigSlice(msgspec.Struct, frozen=True, kw_only=True):
    """A partition of a GPU that acts as a device (MIG, multi-instance GPU)."""

    uuid: str
    name: str
    """Its profile, such as `1g.10gb`, or the driver's name for it."""

    memory_total: int | None = None
    memory_used: int | None = None


class DeviceSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one device. `None` means that there is no value; 0 never means unknown.

    `silent` has the reason for `None` by the name of the field, unless the helper has not queried
    this field yet.
    """

    id: str
    """`cpu`, or the GPU's full UUID."""

    kind: Literal["cpu", "gpu"]
    label: str
    """Short display name: `CPU`, or the GPU's `index`."""

    name: str
    index: int | None = None
    """The driver's number of a GPU, as in `nvidia-smi`; a card that does not answer keeps its
    number, so there may be gaps. None for the CPU."""

    pci_bus: str | None = None

    memory_total: int | None = None
    """Bytes."""

    memory_used: int | None = None
    """Bytes used by all processes on the machine, without `memory_reserved`."""

    memory_reserved: int | None = None
    """Bytes that the driver reserves."""

    memory_free: int | None = None
    utilisation: float | None = None
    """Percent of the last sampling window during which the device worked."""

    temperature: float | None = None
    """Degrees Celsius."""

    temperature_slowdown: float | None = None
    """The temperature at which the GPU starts to reduce its clocks, in degrees Celsius."""

    power: float | None = None
    """Watts."""

    power_limit: float | None = None
    """Watts that the driver enforces."""

    clock: float | None = None
    """The clock of the streaming multiprocessors, in MHz."""

    memory_clock: float | None = None
    """MHz."""

    fan: float | None = None
    """Percent of the full speed."""

    performance_state: int | None = None
    """0 (fastest) to 15."""

    throttle_reasons: tuple[str, ...] | None = None
    """Why the clocks are reduced, in words; empty: full clocks."""

    ecc_corrected: int | None = None
    """Corrected memory errors since the driver was loaded."""

    ecc_uncorrected: int | None = None
    """Uncorrected memory errors since the driver was loaded."""

    pcie_sent: float | None = None
    """Bytes per second; measured only on request, like the next three."""

    pcie_received: float | None = None
    nvlink_sent: float | None = None
    nvlink_received: float | None = None

    processes: tuple[GpuProcess, ...] | None = None
    slices: tuple[MigSlice, ...] = ()
    """Empty if the GPU is not divided."""

    asleep: bool = False
    """Whether the card is powered down; it is not queried then, because a query would wake it."""

    lost: str | None = None
    """Why the device is lost, or None while it answers."""

    lost_since: float | None = None
    """Seconds since the epoch."""

    silent: dict[str, str] = {}
    """The reason by field without a value: `not supported`, `no permission`, or the driver's
    message."""


LinkKind = Literal["NVLink", "PCIe switch", "host bridge", "NUMA node", "system", "unknown"]
"""The connection of two GPUs, best first; `system`: the link between two CPU sockets."""


class Link(msgspec.Struct, frozen=True):
    """The link between two GPUs."""

    first: str
    """UUID."""

    second: str
    kind: LinkKind


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All devices at one time."""

    time: float
    """Seconds since the epoch."""

    devices: tuple[DeviceSnapshot, ...]
    """The GPUs in PCI order, then the CPU."""

    gpu_note: str = ""
    """Why GPUs are missing, in a sentence; empty when all answer."""

    links: tuple[Link, ...] = ()
    """One entry per pair of GPUs."""

    def selectable_gpus(self) -> tuple[str, ...]:
        """Return the UUIDs of the GPUs that a run can use, in PCI order.

        Lost GPUs are left out. A divided GPU is replaced by its slices, because a run cannot use it
        as a whole.
        """
        found: list[str] = []
        for device in self.devices:
            if device.kind == "gpu" and device.lost is None:
                found += [part.uuid for part in device.slices] or [device.id]
        return tuple(found)

    def known_gpus(self) -> tuple[KnownGpu, ...]:
        """Return all GPUs, also lost ones, for the helper that is started after this one."""
        return tuple(
            KnownGpu(device.id, device.index, device.name, device.pci_bus)
            for device in self.devices
            if device.index is not None and device.pci_bus is not None
        )

    def display_names(self) -> dict[str, str]:
        """Return the display name of each GPU and each slice, such as `GPU 0`, by UUID."""
        names: dict[str, str] = {}
        for device in self.devices:
            if device.kind == "gpu":
                names[device.id] = f"GPU {device.label}"
                for part in device.slices:
                    names[part.uuid] = f"GPU {device.label} ({part.name})"
        return names


class KnownGpu(msgspec.Struct, frozen=True):
    """A GPU that an earlier helper has found."""

    uuid: str
    index: int
    name: str
    pci_bus: str


class Request(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request of a reader of snapshots: one line of JSON on the helper's standard input.

    A missing field changes nothing.
    """

    watching: bool | None = None
    """Whether the reader needs snapshots at the full rate."""

    detail: str | None = None
    """UUID of the GPU whose traffic to measure; empty: none."""
