"""The first steps of a process that a worker starts, such as a data loader."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
from pathlib import Path

from engine.processes.process import write_stacks_when_asked
from engine.system.paths import helper_stacks_file
from engine.worker import environment, signals


def begin(_: int = 0) -> None:
    """Leave signals to the worker, and write the stacks of this process when asked.

    Outside a run, no stacks are written. The argument is the worker number of a DataLoader.
    """
    signals.ignore_in_child()
    if stacks := os.environ.get(environment.STACKS):
        with contextlib.suppress(OSError):  # a full disk: this process has no stacks
            write_stacks_when_asked(helper_stacks_file(Path(stacks), os.getpid()))


def leave_files_in(folder: str) -> None:
    """Let `multiprocessing`, here and in processes started later, make its sockets in `folder`.

    Otherwise its own folder stays behind: a worker leaves without exit handlers. Empty: do nothing.
    """
    if folder:
        multiprocessing.current_process()._config["tempdir"] = folder  # type: ignore[attr-defined]


def become_main_module() -> None:
    """Let processes that this worker spawns execute `engine/worker/spawned.py` first.

    By its path: the user may have a package `engine` too.
    """
    main = sys.modules["__main__"]
    main.__spec__ = None
    main.__file__ = str(Path(__file__).with_name("spawned.py"))
