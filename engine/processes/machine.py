"""Which machine this is, as runs remember it."""

from __future__ import annotations

import hashlib
import os
import platform
from functools import cache
from pathlib import Path

import msgspec
import psutil

from engine.processes.process import ON_LINUX


class Machine(msgspec.Struct, frozen=True):
    """Where a process runs. Empty on systems other than Linux, and in old files: it is not known,
    and taken for this machine."""

    host: str = ""
    """Its name, for the user."""

    id: str = ""
    """A hash of the number that it got when its system was installed; empty: it has none."""

    boot: str = ""
    """Changes with each boot. Containers of one machine have the same."""

    processes: str = ""
    """The namespace of its process numbers; each container has another."""


@cache
def this_machine() -> Machine:
    """Return where this process runs."""
    if not ON_LINUX:
        return Machine()
    number = _text("/etc/machine-id").encode()
    return Machine(
        platform.node(),
        # The number itself is not to be shown to others: see machine-id(5).
        hashlib.sha256(b"traindeck " + number).hexdigest()[:16] if number else "",
        _text("/proc/sys/kernel/random/boot_id"),
        _target("/proc/self/ns/pid"),
    )


def is_here(machine: Machine) -> bool:
    """Whether a process on `machine` can be seen here by its number, unless it has ended."""
    here = this_machine()
    if not (machine.boot and here.boot):
        return True
    return (machine.boot, machine.processes) == (here.boot, here.processes)


def _text(file: str) -> str:
    try:
        return Path(file).read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _target(link: str) -> str:
    try:
        return str(Path(link).readlink())
    except OSError:
        return ""


def rank_links(interface: str = "") -> dict[str, str]:
    """Return the environment variables that keep ranks on one network interface; empty: on this
    machine; and what NCCL says of them.

    NCCL, also TensorFlow's, would listen on the first other interface. It tells the reason of an
    error only in its own lines; a level that the user has chosen stays.
    """
    name = interface or loopback_interface()
    return {
        "GLOO_SOCKET_IFNAME": name,
        "NCCL_SOCKET_IFNAME": f"={name}" if name else "",  # without `=` it would be a prefix
        "NCCL_DEBUG": os.environ.get("NCCL_DEBUG", "WARN"),
    }


def loopback_interface() -> str:
    """Return the name of the loopback interface; empty if there is none."""
    for name, addresses in psutil.net_if_addrs().items():
        if any(address.address == "127.0.0.1" for address in addresses):
            return str(name)
    return ""
