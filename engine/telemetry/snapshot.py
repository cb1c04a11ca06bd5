"""One frozen picture of all devices of this machine, as the sampling helper prints it."""

from __future__ import annotations

from typing import Literal

import msgspec


class GpuProcess(msgspec.Struct, frozen=True):
    """A process that uses a GPU, whoever owns it."""

    pid: int
    name: str = ""
    """Name of its program; empty where the system does not say."""

    user: str = ""
    memory: int | None = None
    """Bytes on this GPU; None where the driver does not count by process (Windows, containers)."""

    started: float | None = None
    """Seconds since the epoch: with it a pid that was given away again is told apart."""


class MigSlice(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a GPU that is a device of its own (MIG, multi-instance GPU)."""

    uuid: str
    name: str
    """Its profile, such as `1g.10gb`, or what the driver calls it."""

    memory_total: int | None = None
    memory_used: int | None = None


class DeviceSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """What one device is doing. `None`: there is no value, never 0 for unknown.

    Why there is none stands in `silent`, by the name of the field: without an entry there, the
    field was not asked for yet.
    """

    id: str
    """`cpu`, or the GPU's full UUID: the key under which a device is remembered."""

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
    """Bytes, by everybody on the machine, without what the driver reserves."""

    memory_reserved: int | None = None
    """Bytes that the driver keeps for itself."""

    memory_free: int | None = None
    utilisation: float | None = None
    """Percent of time with work in the last sampling window."""

    temperature: float | None = None
    """Degrees Celsius."""

    temperature_slowdown: float | None = None
    """Degrees Celsius from which on the GPU slows itself down."""

    power: float | None = None
    """Watts."""

    power_limit: float | None = None
    """Watts that the driver enforces."""

    clock: float | None = None
    """Of the streaming multiprocessors, in MHz."""

    memory_clock: float | None = None
    """MHz."""

    fan: float | None = None
    """Percent of its speed."""

    performance_state: int | None = None
    """0 (fastest) to 15."""

    throttle_reasons: tuple[str, ...] | None = None
    """Why the clocks are lower than they could be, in words; empty: they are not."""

    ecc_corrected: int | None = None
    """Memory errors since the driver was loaded that were repaired."""

    ecc_uncorrected: int | None = None
    """Memory errors since the driver was loaded that were not."""

    pcie_sent: float | None = None
    """Bytes per second; asked for on demand only, as are the next three."""

    pcie_received: float | None = None
    nvlink_sent: float | None = None
    nvlink_received: float | None = None

    processes: tuple[GpuProcess, ...] | None = None
    slices: tuple[MigSlice, ...] = ()
    """Empty where the GPU is not divided."""

    asleep: bool = False
    """Whether the card is powered down: it is left alone, because asking would wake it."""

    lost: str | None = None
    """Why the device does not answer any more, or None while it does."""

    lost_since: float | None = None
    """Seconds since the epoch."""

    silent: dict[str, str] = {}
    """Fields without a value, each with the reason: `not supported`, `no permission`, or what the
    driver answered."""


LinkKind = Literal["NVLink", "PCIe switch", "host bridge", "NUMA node", "system", "unknown"]
"""What two GPUs are joined by, best first; `system`: the connection between two CPU sockets."""


class Link(msgspec.Struct, frozen=True):
    """How two GPUs reach each other."""

    first: str
    """UUID."""

    second: str
    kind: LinkKind


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All devices at one time."""

    time: float
    """Seconds since the epoch."""

    devices: tuple[DeviceSnapshot, ...]
    """The CPU, then the GPUs in PCI order."""

    gpu_note: str = ""
    """Why no GPU is listed, in a sentence; empty when the driver answers."""

    links: tuple[Link, ...] = ()
    """One entry per pair of GPUs."""

    def gpus_to_choose(self) -> tuple[str, ...]:
        """The UUIDs of what a run can use of the GPUs that answer, in PCI order.

        Of a GPU that is divided these are its slices: nobody can use the whole any more.
        """
        found: list[str] = []
        for device in self.devices:
            if device.kind == "gpu" and device.lost is None:
                found += [part.uuid for part in device.slices] or [device.id]
        return tuple(found)

    def spoken_names(self) -> dict[str, str]:
        """What people call each GPU and each slice of one, such as `GPU 0`, by UUID."""
        names: dict[str, str] = {}
        for device in self.devices:
            if device.kind == "gpu":
                names[device.id] = f"GPU {device.label}"
                for part in device.slices:
                    names[part.uuid] = f"GPU {device.label} ({part.name})"
        return names
