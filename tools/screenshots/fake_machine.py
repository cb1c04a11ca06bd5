"""Made-up machines: a workstation with four GPUs, and eight GPUs in every state there is."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import msgspec

from engine.telemetry.snapshot import DeviceSnapshot, GpuProcess, Link, LinkKind, MigSlice, Snapshot

GIB = 2**30
TENSORS = 41 * GIB
"""Bytes that the tensors of a worker use on its GPU."""

POOL = 58 * GIB
"""Bytes that its framework has reserved: the tensors and the cache."""

_WARM_UP = 9.0
"""Seconds from the start of a worker until its memory is full."""

_VALIDATION = 11
"""Seconds from one dip of the utilisation to the next."""


def uuid(number: int) -> str:
    """Return the UUID of GPU `number`."""
    return f"GPU-{number:08x}-5c1e-4a7b-9d20-3f6b8e41c7a5"


BUSY, HOT, LOST, MIG, OTHERS, ASLEEP, SILENT, IDLE = map(uuid, range(8))
"""The eight GPUs by state, in the order of the rows; BUSY and HOT train a run of ours."""

_NOT_SUPPORTED = dict.fromkeys(
    ("utilisation", "temperature", "power", "fan", "memory_used", "processes"), "not supported"
)


def gpu(number: int, used: float | None = 0.4, **known: Any) -> DeviceSnapshot:
    """Return GPU `number` with `used` GiB of memory in use, and the other values of an idle GPU."""
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
        index=number,
        pci_bus=f"00000000:{0x10 + number:02X}:00.0",
        memory_total=total,
        **(figures | known),
    )


def cpu(**known: Any) -> DeviceSnapshot:
    """Return the CPU of the machine."""
    return DeviceSnapshot(
        id="cpu",
        kind="cpu",
        label="CPU",
        name="AMD EPYC 9354",
        **({"utilisation": 23.0, "memory_used": 96 * GIB, "memory_total": 512 * GIB} | known),
    )


def process(
    pid: int,
    memory: float | None,
    started: float | None,
    *,
    name: str = "python",
    user: str = "guest",
) -> GpuProcess:
    """Return a process that uses `memory` GiB of its GPU."""
    size = None if memory is None else int(memory * GIB)
    return GpuProcess(pid, name, user, size, started)


def workstation(time: float, since: float = math.inf, pids: Sequence[int] = ()) -> Snapshot:
    """Return four GPUs at `time`; those with a worker in `pids` are busy from `since` on."""
    devices = [
        _worked(number, pids[number], time, since)
        if number < len(pids) and time >= since
        else gpu(number, temperature=33.0 + number, power=68.0 + 2 * number)
        for number in range(4)
    ]
    load = _noise(9, time) * 6 + (41 if time >= since else 3)
    return Snapshot(time=time, devices=(*devices, cpu(utilisation=max(0.0, load))), links=_links(4))


def with_lost_gpu(time: float, since: float) -> Snapshot:
    """Return the workstation, idle, whose second GPU fell off the bus at `since`."""
    reason = "The GPU has fallen off the bus: NVML says GPU is lost."
    idle = workstation(time)
    lost = gpu(1, None, lost=reason, lost_since=since)
    return msgspec.structs.replace(
        idle, devices=tuple(lost if each.id == lost.id else each for each in idle.devices)
    )


def _worked(number: int, pid: int, time: float, since: float) -> DeviceSnapshot:
    """Return GPU `number` with the worker `pid`, which began at `since`."""
    warm = min(1.0, (time - since) / _WARM_UP)
    validates = int(time - since) % _VALIDATION == number // 2 and warm == 1
    load = warm * (96 - 4.5 * number + 3 * _noise(number, time)) - (37 if validates else 0)
    used = 0.4 + warm * (60.4 + 4.1 * number + 0.15 * _noise(number + 4, time))
    return gpu(
        number,
        used,
        utilisation=round(max(0.0, load)),
        temperature=round(36 + warm * (31 + 4 * number + _noise(number, time // 3))),
        power=round(80 + 5.4 * max(0.0, load) + 12 * _noise(number, time)),
        clock=1755.0,
        processes=(process(pid, used - 0.3, since, user="ana"),),
    )


def _noise(number: int, time: float) -> float:
    """Return noise from -1 to 1 that depends on the second only."""
    return random.Random(f"{number}/{int(time)}").uniform(-1, 1)


def eight_gpus(
    time: float, since: float | None = None, pids: Sequence[int] = (7001, 7002)
) -> Snapshot:
    """All states at `time`; everybody's processes began at `since` (default: an hour before).

    `pids`: our workers on BUSY and HOT.
    """
    began = time - 3600 if since is None else since
    wave = 4 * math.sin(time / 3) - (38 if int(time) % 23 == 0 else 0)
    reason = "The GPU has fallen off the bus: NVML says GPU is lost."
    devices = (
        gpu(0, 61.2, utilisation=94.0 + wave, temperature=71.0, power=612.0, clock=1755.0,
            processes=(process(pids[0], 60.9, began, user="ana"),), pcie_sent=3.1e9,
            pcie_received=1.2e9, nvlink_sent=88e9, nvlink_received=87e9),
        gpu(1, 77.4, utilisation=96.0 + wave, temperature=85.0, power=691.0, clock=1320.0,
            throttle_reasons=("hardware thermal slowdown",), ecc_corrected=3,
            processes=(process(pids[1], 77.1, began, user="ana"),)),
        gpu(2, None, lost=reason, lost_since=time - 754),
        gpu(3, 23.4, utilisation=None, temperature=52.0, power=240.0,
            silent={"utilisation": "not supported on a divided GPU", "fan": "not supported"},
            slices=(MigSlice(uuid="MIG-a", name="3g.40gb", memory_total=int(39.5 * GIB),
                             memory_used=int(20.1 * GIB)),
                    MigSlice(uuid="MIG-b", name="1g.10gb", memory_total=int(9.8 * GIB),
                             memory_used=int(3.3 * GIB)),
                    MigSlice(uuid="MIG-c", name="1g.10gb", memory_total=int(9.8 * GIB),
                             memory_used=0)),
            processes=(process(9100, 20.0, began, user="ben"),
                       process(9101, 3.2, began, user="ben"))),
        gpu(4, 48.3, utilisation=77.0 + wave, temperature=64.0, power=455.0,
            processes=(process(4242, 36.0, began),
                       process(4243, 11.8, began, name="ollama", user="root"))),
        gpu(5, None, utilisation=None, temperature=None, power=None, asleep=True),
        gpu(6, None, utilisation=None, temperature=None, power=None, processes=None,
            silent=_NOT_SUPPORTED),
        gpu(7),
        cpu(),
    )  # fmt: skip
    return Snapshot(time=time, devices=devices, links=_links(8))


def _links(count: int) -> tuple[Link, ...]:
    """Return the links: NVLink within each group of four GPUs, slower ones between the groups."""
    found = []
    for first in range(count):
        for second in range(first + 1, count):
            kind: LinkKind = "NVLink" if first // 4 == second // 4 else "system"
            if (first, second) == (3, 4):
                kind = "unknown"
            found.append(Link(uuid(first), uuid(second), kind))
    return tuple(found)
