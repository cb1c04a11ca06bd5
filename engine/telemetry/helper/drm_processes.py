"""The processes on AMD and Intel GPUs, which Linux lists by process."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from engine.telemetry.helper.drm_fields import read_number
from engine.telemetry.helper.nvml_processes import describe_process
from engine.telemetry.snapshot import GpuProcess

_KIB = 1024
_OWN_MEMORY = ("drm-memory-vram", "drm-resident-vram0", "drm-total-vram0", "drm-total-local0")
"""Keys of the memory on the card: of amdgpu, of xe, and of i915; the first that is there counts."""


def drm_processes(
    system: Path, proc: Path, compute_numbers: Mapping[str, str]
) -> dict[str, tuple[GpuProcess, ...]]:
    """Return the processes on each card by its address on the PCI bus.

    Only processes of this user are found by their open files; those that compute on an AMD card
    are listed for all users, by the number that amdgpu gives the card (`compute_numbers`: address
    by number).
    """
    memory: dict[str, dict[int, int]] = defaultdict(dict)
    for pid, bus, used in _clients(proc):
        memory[bus][pid] = memory[bus].get(pid, 0) + used
    for pid, bus, used in _computing(system / "class/kfd/kfd/proc", compute_numbers):
        memory[bus][pid] = max(memory[bus].get(pid, 0), used)
    return {
        bus: tuple(describe_process(pid, used) for pid, used in sorted(found.items()))
        for bus, found in memory.items()
    }


def _computing(folder: Path, numbers: Mapping[str, str]) -> Iterator[tuple[int, str, int]]:
    """Yield (pid, address of the card, bytes) of what uses ROCm."""
    for file in folder.glob("*/vram_*"):
        bus = numbers.get(file.name.removeprefix("vram_"))
        used = read_number(file)
        if bus and used is not None and file.parent.name.isdecimal():
            yield int(file.parent.name), bus, int(used)


def _clients(proc: Path) -> Iterator[tuple[int, str, int]]:
    """Yield (pid, address of the card, bytes) of each open connection to a card."""
    for folder in proc.glob("[0-9]*"):
        seen: set[tuple[str, str]] = set()  # a copied descriptor is the same connection
        for facts in _open_connections(folder):
            bus, client = facts.get("drm-pdev", ""), facts.get("drm-client-id", "")
            if bus and (bus, client) not in seen:
                seen.add((bus, client))
                yield int(folder.name), bus.lower(), _bytes_on_card(facts)


def _open_connections(process: Path) -> Iterator[dict[str, str]]:
    try:
        files = list((process / "fd").iterdir())
    except OSError:
        return  # it has ended, or is of another user
    for file in files:
        try:
            if "/dri/" not in str(file.readlink()):
                continue
            lines = (process / "fdinfo" / file.name).read_text(errors="replace").splitlines()
        except OSError:
            continue  # closed meanwhile
        yield {key.strip(): value.strip() for key, _, value in (x.partition(":") for x in lines)}


def _bytes_on_card(facts: Mapping[str, str]) -> int:
    for key in _OWN_MEMORY:
        number, _, unit = facts.get(key, "").partition(" ")
        if number.isdecimal():
            return int(number) * {"KiB": _KIB, "MiB": _KIB**2}.get(unit.strip(), 1)
    return 0
