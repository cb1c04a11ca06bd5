"""The first steps of a process that a worker starts, such as a data loader.

A spawned process imports this module as its main module before it reads what the worker sends it:
objects whose classes the recipe defines.
"""

from __future__ import annotations

import contextlib
import os
import sys
from importlib.util import find_spec
from pathlib import Path

from engine.processes.process import write_stacks_when_asked
from engine.system.paths import helper_stacks_file
from engine.worker import environment, recipe_import, signals


def begin(_: int = 0) -> None:
    """Leave signals to the worker, and write the stacks of this process when asked.

    Outside a run, no stacks are written. The argument is the worker number of a DataLoader.
    """
    signals.ignore_in_child()
    if stacks := os.environ.get(environment.STACKS):
        with contextlib.suppress(OSError):  # a full disk: this process has no stacks
            write_stacks_when_asked(helper_stacks_file(Path(stacks), os.getpid()))


def become_main_module() -> None:
    """Let processes that this worker spawns import this module first."""
    sys.modules["__main__"].__spec__ = find_spec(__name__)


if __name__ == "__mp_main__":
    recipe_import.serve_spawned_process()
