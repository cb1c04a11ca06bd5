"""`python -m engine.cluster.ray_start WORDS...`: the program `ray start` of this environment.

The kernel kills it when its parent has ended, and with it what it has started.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_SET_DEATH_SIGNAL = 1
"""See prctl(2)."""


def main() -> int:
    """Carry out `ray start` until it is asked to end."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it has ended before the kernel knew
        return 1
    # Where gRPC is installed, Ray would start its client server too: it listens on all interfaces,
    # and no option of `ray start` prevents it.
    sys.modules["grpc"] = None  # type: ignore[assignment]
    sys.argv = ["ray", "start", *sys.argv[1:]]
    from ray.scripts.scripts import main as start  # what the program `ray` calls

    return int(start() or 0)


if __name__ == "__main__":
    sys.exit(main())
