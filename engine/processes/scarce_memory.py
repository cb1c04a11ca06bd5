"""Whether the memory of this machine was scarce for a time, so that the system may have killed."""

from __future__ import annotations

from pathlib import Path

import psutil

_VMSTAT = Path("/proc/vmstat")
_KILLS = "oom_kill"
"""The processes that the kernel has killed for memory since the boot: of the whole machine, and
those that met the limit of a control group too."""

_SCARCE = 0.1
"""Of the machine's memory: with less, systemd-oomd and earlyoom kill, which the kernel does not
count."""


class MemoryWatch:
    """Watches the memory of this machine from its creation on, as often as `look` is called."""

    def __init__(self) -> None:
        self._kills = _kills()
        self._was_scarce = False
        self.look()

    def look(self) -> None:
        """See how much is free now."""
        memory = psutil.virtual_memory()
        self._was_scarce |= memory.available < _SCARCE * memory.total

    @property
    def was_scarce(self) -> bool:
        """Whether the kernel has killed for memory meanwhile, or little was free at a look."""
        return self._was_scarce or _kills() > self._kills


def _kills() -> int:
    """Return the kernel's count; 0 where it tells none."""
    try:
        rows = (line.split() for line in _VMSTAT.read_text().splitlines())
        return next((int(row[1]) for row in rows if row[0] == _KILLS), 0)
    except OSError:
        return 0
