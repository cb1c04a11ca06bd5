"""A made-up machine with eight GPUs, one for each state that the window can show."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from engine.attribution import Worker
from engine.telemetry.snapshot import (
    DeviceSnapshot,
    GpuProcess,
    Link,
    LinkKind,
    MigSlice,
    Snapshot,
)

GIB = 2**30
TIME = 1_780_000_000.0
"""When the newest snapshot is taken (seconds since the epoch)."""

RUN = "resnet18 · ddp × 2 · #42"


def uuid(number: int) -> str:
    """The UUID of GPU `number`."""
    return f"GPU-{number:08x}-5c1e-4a7b-9d20-3f6b8e41c7a5"


BUSY, HOT, LOST, MIG, OTHERS, ASLEEP, SILENT, IDLE = map(uuid, range(8))
"""What each GPU is, in the order of the rows: BUSY and HOT train a run of ours."""

NOT_SUPPORTED = dict.fromkeys(
    ("utilisation", "temperature", "power", "fan", "memory_used", "processes"), "not supported"
)


def gpu(number: int, used: float | None = 0.4, **known: Any) -> DeviceSnapshot:
    """GPU `number`, with `used` GiB of its memory in use and some figures of a calm card."""
    total = 80 * GIB
    figures: dict[str, Any] = {
        "name": "NVIDIA H100 80GB HBM3",
        "utilisation": 0.0,
        "temperature": 34.0,
        "temperature_slowdown": 87.0,
        "power": 71.0,
        "power_limit": 700.0,
        "clock": 345.0,
        "memory_clock": 2619.0,
        "performance_state": 0,
        "throttle_reasons": (),
        "ecc_corrected": 0,
        "ecc_uncorrected": 0,
        "processes": (),
        "silent": {"fan": "not supported"},
    }
    if used is not None:
        figures |= {
            "memory_used": int(used * GIB),
            "memory_reserved": int(0.6 * GIB),
            "memory_free": total - int((used + 0.6) * GIB),
        }
    return DeviceSnapshot(
        id=uuid(number),
        kind="gpu",
        label=str(number),
        pci_bus=f"00000000:{0x10 + number:02X}:00.0",
        memory_total=total,
        **(figures | known),
    )


def cpu(**known: Any) -> DeviceSnapshot:
    """The processor of the machine."""
    return DeviceSnapshot(
        id="cpu",
        kind="cpu",
        label="CPU",
        name="AMD EPYC 9354",
        **({"utilisation": 23.0, "memory_used": 96 * GIB, "memory_total": 512 * GIB} | known),
    )


def process(
    pid: int, memory: float | None, *, name: str = "python", user: str = "mia", **known: Any
) -> GpuProcess:
    """A process with `memory` GiB on its GPU, started an hour before TIME."""
    size = None if memory is None else int(memory * GIB)
    return GpuProcess(pid, name, user, size, **({"started": TIME - 3600} | known))


def eight_gpus(time: float = TIME) -> Snapshot:
    """All of them at `time`; utilisation moves with it."""
    wave = 4 * math.sin(time / 3) - (38 if int(time) % 23 == 0 else 0)
    reason = "The GPU has fallen off the bus: NVML says GPU is lost."
    devices = (
        gpu(0, 61.2, utilisation=94.0 + wave, temperature=71.0, power=612.0, clock=1755.0,
            processes=(process(7001, 60.9, user="ana"),), pcie_sent=3.1e9, pcie_received=1.2e9,
            nvlink_sent=88e9, nvlink_received=87e9),
        gpu(1, 77.4, utilisation=96.0 + wave, temperature=85.0, power=691.0, clock=1320.0,
            throttle_reasons=("hardware thermal slowdown",), ecc_corrected=3,
            processes=(process(7002, 77.1, user="ana"),)),
        gpu(2, None, lost=reason, lost_since=time - 754),
        gpu(3, 23.4, utilisation=None, temperature=52.0, power=240.0,
            silent={"utilisation": "not supported on a divided GPU", "fan": "not supported"},
            slices=(MigSlice(uuid="MIG-a", name="3g.40gb", memory_total=int(39.5 * GIB),
                             memory_used=int(20.1 * GIB)),
                    MigSlice(uuid="MIG-b", name="1g.10gb", memory_total=int(9.8 * GIB),
                             memory_used=int(3.3 * GIB)),
                    MigSlice(uuid="MIG-c", name="1g.10gb", memory_total=int(9.8 * GIB),
                             memory_used=0)),
            processes=(process(9100, 20.0, user="ben"), process(9101, 3.2, user="ben"))),
        gpu(4, 48.3, utilisation=77.0 + wave, temperature=64.0, power=455.0,
            processes=(process(4242, 36.0), process(4243, 11.8, name="ollama", user="root"))),
        gpu(5, None, utilisation=None, temperature=None, power=None, asleep=True),
        gpu(6, None, utilisation=None, temperature=None, power=None, processes=None,
            silent=NOT_SUPPORTED),
        gpu(7),
        cpu(),
    )  # fmt: skip
    return Snapshot(time=time, devices=devices, links=links())


def workers() -> list[Worker]:
    """Our run on the first two GPUs."""
    noted = TIME - 3599
    return [
        Worker(RUN, 0, 7001, noted, (BUSY,), 41.0 * GIB, 58.5 * GIB),
        Worker(RUN, 1, 7002, noted, (HOT,), 66.0 * GIB, 74.7 * GIB),
    ]


def links() -> tuple[Link, ...]:
    """NVLink within each half of the GPUs, worse between them."""
    found = []
    for first in range(8):
        for second in range(first + 1, 8):
            kind: LinkKind = "NVLink" if first // 4 == second // 4 else "system"
            if (first, second) == (3, 4):
                kind = "unknown"
            found.append(Link(uuid(first), uuid(second), kind))
    return tuple(found)


def last_minutes(seconds: int = 120) -> Iterator[Snapshot]:
    """A snapshot a second, up to TIME."""
    for age in reversed(range(seconds)):
        yield eight_gpus(TIME - age)
