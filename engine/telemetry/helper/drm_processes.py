"""The processes on AMD and Intel GPUs, which Linux lists by process."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from engine.telemetry.helper.drm_fields import as_number, matches, read_number
from engine.telemetry.helper.nvml_fields import MOST_BYTES
from engine.telemetry.helper.nvml_processes import describe_process
from engine.telemetry.snapshot import GpuProcess

_KIB = 1024
_PID = re.compile(r"[0-9]{1,9}")
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
    memory: dict[str, dict[int, int | None]] = defaultdict(dict)
    for pid, bus, used in _clients(proc):
        before = memory[bus].get(pid)
        memory[bus][pid] = before if used is None else used + (before or 0)
    for pid, bus, used in _computing(system / "class/kfd/kfd/proc", compute_numbers):
        known = [size for size in (memory[bus].get(pid), used) if size is not None]
        memory[bus][pid] = max(known, default=None)
    return {
        bus: tuple(describe_process(pid, used) for pid, used in sorted(found.items()))
        for bus, found in memory.items()
    }


def _computing(folder: Path, numbers: Mapping[str, str]) -> Iterator[tuple[int, str, int | None]]:
    """Yield (pid, address of the card, bytes) of what uses ROCm."""
    for process in _processes(folder):
        for file in matches(process, "vram_*"):
            bus, used = numbers.get(file.name.removeprefix("vram_")), read_number(file)
            if bus and used is not None:
                yield int(process.name), bus, _possible(used)


def _clients(proc: Path) -> Iterator[tuple[int, str, int | None]]:
    """Yield (pid, address of the card, bytes) of each open connection to a card."""
    for folder in _processes(proc):
        seen: set[tuple[str, str]] = set()  # a copied descriptor is the same connection
        for facts in _open_connections(folder):
            bus, client = facts.get("drm-pdev", ""), facts.get("drm-client-id", "")
            if bus and (bus, client) not in seen:
                seen.add((bus, client))
                yield int(folder.name), bus.lower(), _bytes_on_card(facts)


def _processes(folder: Path) -> list[Path]:
    return [each for each in matches(folder, "[0-9]*") if _PID.fullmatch(each.name)]


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


def _bytes_on_card(facts: Mapping[str, str]) -> int | None:
    """Return the bytes; None if the driver does not count them, or says what cannot be."""
    for key in _OWN_MEMORY:
        number, _, unit = facts.get(key, "").partition(" ")
        if (count := as_number(number)) is not None:
            return _possible(count * {"KiB": _KIB, "MiB": _KIB**2}.get(unit.strip(), 1))
    return None


def _possible(size: float) -> int | None:
    return int(size) if 0 <= size <= MOST_BYTES else None
