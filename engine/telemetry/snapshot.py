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
    """Bytes on this GPU; None if the driver does not count by process (Windows, containers)."""

    started: float | None = None
    """Seconds since the epoch; together with the pid it identifies the process."""


class MigSlice(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a GPU that is a device of its own: MIG, multi-instance GPU."""

    uuid: str
    name: str
    """Its profile, such as `1g.10gb`, or the driver's name for it."""

    memory_total: int | None = None
    memory_used: int | None = None


class DeviceSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one device. `None` means that there is no value; 0 never means unknown.

    `silent` has the reason by the name of the field; a field without a value that is not in it was
    not asked for yet.
    """

    id: str
    """`cpu`, or the GPU's full UUID."""

    kind: Literal["cpu", "gpu"]
    label: str
    """Short name for people: `CPU`, or the GPU's `index`."""

    name: str
    index: int | None = None
    """The driver's number of a GPU, which `nvidia-smi` shows too; a card that does not answer keeps
    its own, so the numbers may have a gap. None for the CPU."""

    pci_bus: str | None = None

    memory_total: int | None = None
    """Bytes."""

    memory_used: int | None = None
    """Bytes, of all processes on the machine, without what the driver reserves."""

    memory_reserved: int | None = None
    """Bytes that the driver keeps for itself."""

    memory_free: int | None = None
    utilisation: float | None = None
    """Percent of time with work in the last sampling window."""

    temperature: float | None = None
    """Degrees Celsius."""

    temperature_slowdown: float | None = None
    """The temperature from which on the GPU reduces its clocks, in degrees Celsius."""

    power: float | None = None
    """Watts."""

    power_limit: float | None = None
    """Watts that the driver enforces."""

    clock: float | None = None
    """The clock of the streaming multiprocessors, in MHz."""

    memory_clock: float | None = None
    """MHz."""

    fan: float | None = None
    """Percent of its speed."""

    performance_state: int | None = None
    """0 (fastest) to 15."""

    throttle_reasons: tuple[str, ...] | None = None
    """Why the clocks are reduced, in words; empty: they are not."""

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
    """Whether the card is powered down: then it is not asked, because that would wake it."""

    lost: str | None = None
    """Why the device is lost, or None while it answers."""

    lost_since: float | None = None
    """Seconds since the epoch."""

    silent: dict[str, str] = {}
    """Fields without a value, each with the reason: `not supported`, `no permission`, or what the
    driver answered."""


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

    def gpus_to_choose(self) -> tuple[str, ...]:
        """Return the UUIDs of the GPUs that a run can use, in PCI order.

        A lost GPU is not among them. Of a divided GPU these are its slices, because a run cannot
        use it as a whole.
        """
        found: list[str] = []
        for device in self.devices:
            if device.kind == "gpu" and device.lost is None:
                found += [part.uuid for part in device.slices] or [device.id]
        return tuple(found)

    def spoken_names(self) -> dict[str, str]:
        """Return the name for people of each GPU and each slice, such as `GPU 0`, by UUID."""
        names: dict[str, str] = {}
        for device in self.devices:
            if device.kind == "gpu":
                names[device.id] = f"GPU {device.label}"
                for part in device.slices:
                    names[part.uuid] = f"GPU {device.label} ({part.name})"
        return names


class Request(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a reader of snapshots wants: a line of JSON that the telemetry helper reads.

    A field that is not mentioned stays as it is.
    """

    watching: bool | None = None
    """Whether snapshots are wanted at the full rate."""

    detail: str | None = None
    """UUID of the GPU whose traffic is wanted; empty: none."""
