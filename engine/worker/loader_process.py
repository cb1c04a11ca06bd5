"""The beginning of a process that works for a worker, such as one that loads samples."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from engine.system.paths import helper_stacks_file
from engine.system.process import write_stacks_when_asked
from engine.worker import environment, signals


def begin(_: int = 0) -> None:
    """Call it first in a helper: it ends with its worker, and says what it does when asked.

    A helper that nobody started for a run stays as it is. The number is DataLoader's.
    """
    signals.ignore()
    if stacks := os.environ.get(environment.STACKS):
        with contextlib.suppress(OSError):  # a full disk; then it is not asked
            write_stacks_when_asked(helper_stacks_file(Path(stacks), os.getpid()))
