"""How a spec names devices: logical CPU devices by number, GPUs by their full UUID.

One of another machine of the cluster has its name before it: `NAME/cpu:0`, `NAME/GPU-...`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_LOGICAL_CPU = re.compile(r"cpu:(0|[1-9]\d{0,2})")
MOST_LOGICAL_CPUS = 64


def is_logical_cpu(device: str) -> bool:
    """Whether `device` names a logical CPU device (`cpu:0` ... `cpu:63`), on any machine."""
    match = _LOGICAL_CPU.fullmatch(local_name(device))
    return match is not None and int(match[1]) < MOST_LOGICAL_CPUS


def all_on_cpu(devices: Iterable[str]) -> bool:
    """Whether all of `devices` are logical CPU devices; True when there are none."""
    return all(map(is_logical_cpu, devices))


def is_mig_slice(device: str) -> bool:
    """Whether `device` names a MIG slice: a partition of a GPU that acts as a device."""
    return local_name(device).startswith("MIG-")


def machine_of(device: str) -> str:
    """Return the machine of a cluster that `NAME/cpu:0` names; empty: the device is of this one."""
    machine, _, _ = device.rpartition("/")
    return machine


def local_name(device: str) -> str:
    """Return what a device is called on its own machine: `cpu:0` for `NAME/cpu:0`."""
    return device.rpartition("/")[2]


def machines_of(devices: Iterable[str]) -> tuple[str, ...]:
    """Return the machines of `devices`, each once, in their order; empty text: this machine."""
    return tuple(dict.fromkeys(map(machine_of, devices)))


def devices_on(machine: str, devices: Iterable[str]) -> tuple[str, ...]:
    """Return those of `devices` that are on a machine, as they are called there."""
    return tuple(local_name(device) for device in devices if machine_of(device) == machine)


def on_machine(machine: str, device: str) -> str:
    """Return how a spec names a device of another machine; `device` itself without a `machine`."""
    return f"{machine}/{device}" if machine else device
