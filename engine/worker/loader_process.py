"""The first steps of a process that a worker starts, such as a data loader."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from engine.system.paths import helper_stacks_file
from engine.system.process import write_stacks_when_asked
from engine.worker import environment, signals


def begin(_: int = 0) -> None:
    """Leave signals to the worker, and write the stacks of this process when asked.

    Outside a run, no stacks are written. The argument is the worker number of a DataLoader.
    """
    signals.ignore_in_child()
    if stacks := os.environ.get(environment.STACKS):
        with contextlib.suppress(OSError):  # a full disk: this process has no stacks
            write_stacks_when_asked(helper_stacks_file(Path(stacks), os.getpid()))
