"""A data folder for runs that nothing is kept of."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.files.ownership import is_owner
from engine.planning.end_runs import HELD, OVER
from engine.processes import children, presence
from engine.processes.process import module_environment
from engine.system.paths import HOME_VARIABLE
from engine.templates.protocol import FOLDER_VARIABLE, folder
from engine.training.memory_record import MEASURE_MEMORY

PREFIX = "traindeck-own-"

NEW_SECONDS = 60.0
"""Longer than a new folder is without its HELD; one that was deleted in part may be so for ever."""


@contextmanager
def own_data_folder(purpose: str, **variables: str) -> Iterator[Path]:
    """Let runs go to a folder of their own, which is deleted in the end; templates are shared.

    Their workers tell their peak memory. `variables` are set in the environment meanwhile. If this
    process is killed, a process of `engine.planning.end_runs` ends the runs and deletes the folder.
    """
    _remove_leftovers()
    before = dict(os.environ)
    home = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{purpose}-"))
    presence.hold(home / HELD)
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
        shutil.rmtree(home, ignore_errors=True)


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


def _remove_leftovers() -> None:
    """Delete the folders that nobody holds: a power cut, or a kill of both processes, left them."""
    for home in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if is_owner(home.lstat()) and not _is_used(home):
                shutil.rmtree(home, ignore_errors=True)


def _is_used(home: Path) -> bool:
    held = home / HELD
    if held.exists():
        return presence.is_held(held)
    return time.time() - home.stat().st_mtime < NEW_SECONDS  # its owner is about to hold it
