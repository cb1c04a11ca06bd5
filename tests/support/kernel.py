"""What the kernel of this machine can do."""

from __future__ import annotations

import os

KERNEL_TELLS = tuple(map(int, os.uname().release.split(".")[:2])) >= (6, 15)
"""Whether the kernel tells the exit code of a process to others than its parent."""
