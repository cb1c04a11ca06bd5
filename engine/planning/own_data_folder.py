"""A data folder for runs that nothing is kept of."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.planning.end_runs import OVER
from engine.processes import children
from engine.processes.held_folder import make_held_folder
from engine.processes.process import module_environment
from engine.system.paths import HOME_VARIABLE
from engine.templates.protocol import FOLDER_VARIABLE, folder
from engine.training.probes.memory_record import MEASURE_MEMORY

PREFIX = "traindeck-own-"


@contextmanager
def own_data_folder(purpose: str, **variables: str) -> Iterator[Path]:
    """Let runs go to a folder of their own, which is deleted in the end; templates are shared.

    Their workers tell their peak memory. `variables` are set in the environment meanwhile. If this
    process is killed, a process of `engine.planning.end_runs` ends the runs and deletes the folder.
    """
    before = dict(os.environ)
    home, delete = make_held_folder(PREFIX, f"{purpose}-")
    changes = {
        FOLDER_VARIABLE: str(folder()),
        HOME_VARIABLE: str(home),
        MEASURE_MEMORY: "peak",
        **variables,
    }
    ender = _start_ender(home)
    os.environ.update(changes)
    told = b""
    try:
        yield home
        told = OVER
    finally:
        for name in changes:
            del os.environ[name]
            if name in before:
                os.environ[name] = before[name]
        if ender is not None and ender.stdin is not None:
            with contextlib.suppress(OSError):  # it was killed
                ender.stdin.write(told)
                ender.stdin.close()
            ender.wait()
        delete()


def _start_ender(home: Path) -> subprocess.Popen[bytes] | None:
    """Start the process that ends the runs in `home` once this one has closed its pipe."""
    try:
        return children.start(
            [sys.executable, "-P", "-m", "engine.planning.end_runs", str(home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env=module_environment(os.environ),
            start_new_session=True,
        )
    except OSError:  # such as a limit for processes
        return None
