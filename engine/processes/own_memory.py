"""The memory of this process as its kernel counts it: its peak, what it shares, and a limit."""

from __future__ import annotations

import os
from pathlib import Path

from engine.processes.process_tree import ON_LINUX

_STATUS = Path("/proc/self/status")
_ROLLUP = Path("/proc/self/smaps_rollup")
_CLEAR = Path("/proc/self/clear_refs")
_CLEAR_PEAK = "5"
"""See proc(5): sets the highest resident size back to the present one."""

_THREADS_PER_CPU, _MORE_THREADS = 2, 16
"""Threads that a framework may still start. The stack of each counts against a limit whole, though
it uses little of it."""


def peak_bytes() -> int:
    """Return the most memory that this process held, without pages of files; 0: not known.

    Pages of files, such as the code of libraries, are those of now: they only become more.
    """
    sizes = _sizes()
    return max(0, sizes["VmHWM"] - sizes["RssFile"] - sizes["RssShmem"]) if sizes else 0


def held_bytes() -> int:
    """Return the memory that this process holds now, without pages of files; 0: not known."""
    return _sizes().get("RssAnon", 0)


def forget_peak() -> None:
    """Let the peak begin anew; do nothing where the kernel does not offer it."""
    try:
        _CLEAR.write_text(_CLEAR_PEAK)
    except OSError:
        return


def shared_bytes() -> int:
    """Return how much of it this process has in common with others, such as its template."""
    try:
        rows = [line.split() for line in _ROLLUP.read_text().splitlines()[1:]]
    except OSError:
        return 0
    sizes = {row[0].rstrip(":"): int(row[1]) * 1024 for row in rows}
    return max(0, sizes.get("Anonymous", 0) - sizes.get("Private_Dirty", 0))


def limit_growth(size: int) -> bool:
    """Let allocations fail once this process would hold `size` bytes more than it holds now.

    The stacks of threads that are still to come are allowed beside it. Return whether it can be
    limited here.
    """
    sizes = _sizes()
    if not sizes:
        return False
    import resource  # not on Windows

    stack, hard = resource.getrlimit(resource.RLIMIT_STACK)[0], resource.RLIM_INFINITY
    stack = 8 * 2**20 if stack == hard else stack
    threads = _THREADS_PER_CPU * (os.cpu_count() or 1) + _MORE_THREADS
    most = resource.getrlimit(resource.RLIMIT_DATA)[1]
    wanted = sizes["VmData"] + size + threads * stack
    if most != resource.RLIM_INFINITY:
        wanted = min(wanted, most)
    resource.setrlimit(resource.RLIMIT_DATA, (wanted, most))
    return True


def _sizes() -> dict[str, int]:
    """Return the sizes of the kernel's status of this process in bytes; {} where it tells none."""
    if not ON_LINUX:
        return {}
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return {}
    rows = (line.split() for line in lines if line.endswith(" kB"))
    return {row[0].rstrip(":"): int(row[1]) * 1024 for row in rows}
