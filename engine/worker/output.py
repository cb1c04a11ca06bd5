"""A worker's standard output, which is its log: a full disk must not end the training."""

from __future__ import annotations

import sys

from engine.system.streams import lossy_stream


def survive_full_disk() -> None:
    """Make standard output and standard error drop lines, without an error, on a full disk."""
    sys.stdout = lossy_stream(1)
    sys.stderr = lossy_stream(2)
