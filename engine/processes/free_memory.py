"""How much memory this process and those that it starts can still take."""

from __future__ import annotations

from pathlib import Path

import psutil

from engine.processes.control_group import own_group


def free_bytes() -> float:
    """Return what the machine has free, or less where a control group, such as that of a container
    or a batch system, leaves less (Linux, cgroup v2)."""
    free = float(psutil.virtual_memory().available)
    group = own_group()
    return min([free, *left_in_groups(group)]) if group is not None else free


def left_in_groups(group: Path) -> list[float]:
    """Return what `group` and those that it is in leave; without those that have no limit.

    The kernel gives back unused pages of files when a program needs memory.
    """
    found = []
    for folder in (group, *group.parents):
        try:
            limit = float((folder / "memory.max").read_text())
            used = float((folder / "memory.current").read_text())
            rows = (line.split() for line in (folder / "memory.stat").read_text().splitlines())
            unused = next((float(row[1]) for row in rows if row[0] == "inactive_file"), 0.0)
        except (OSError, ValueError):  # there is no limit here: `max`, or no such file
            continue
        found.append(max(0.0, limit - used + unused))
    return found
