"""A control group for the workers of one run, where this user may make one (Linux, cgroup v2).

No process leaves it by itself, so its end is the end of everything that a recipe has started.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from engine.processes import process_tree
from engine.processes.process_tree import ON_LINUX

_MOUNTS = (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup"))
_CHECK_SECONDS = 0.02
_REMOVE_SECONDS = 1.0
_PREFIX = "traindeck-"


class ControlGroup:
    """The group in `folder`; only its supervisor makes it, and its workers enter it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def enter(self) -> None:
        """Move this process into the group. Raises OSError."""
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def end(self, seconds: float) -> None:
        """Ask all processes of the group to end, and kill those that do not within `seconds`."""
        asked: set[int] = set()
        ends_at = time.monotonic() + seconds
        while pids := self._pids():
            for pid in pids - asked:
                process_tree.ask_to_end((pid, process_tree.stat(pid).created))
            asked |= pids
            if time.monotonic() >= ends_at:
                with contextlib.suppress(OSError):
                    (self.folder / "cgroup.kill").write_text("1")
            if time.monotonic() >= ends_at + seconds:
                break  # the kernel does not end it: it hangs in a driver
            time.sleep(_CHECK_SECONDS)

    def remove(self) -> None:
        """Remove the group, once the processes that were killed have ended."""
        deadline = time.monotonic() + _REMOVE_SECONDS
        while self.folder.exists() and time.monotonic() < deadline:
            try:
                self.folder.rmdir()
            except OSError:
                time.sleep(_CHECK_SECONDS)

    def _pids(self) -> set[int]:
        try:
            return set(map(int, (self.folder / "cgroup.procs").read_text().split()))
        except (OSError, ValueError):
            return set()


def create(run: str) -> ControlGroup | None:
    """Make a group for `run` below that of this process; None where this user may not."""
    if not ON_LINUX:
        return None
    try:
        own = own_group()
        if own is None or not os.access(own / "cgroup.procs", os.W_OK):
            return None
        _remove_forgotten(own)
        folder = own / f"{_PREFIX}{run}-{os.getpid()}"
        folder.mkdir()
        if (folder / "cgroup.kill").exists():  # since Linux 5.14
            return ControlGroup(folder)
        folder.rmdir()
    except OSError:
        return None
    return None


def own_group() -> Path | None:
    """Return the folder of the control group of this process; None: the system has none."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    paths = (line.removeprefix("0::/") for line in lines if line.startswith("0::/"))
    mounts = (mount for mount in _MOUNTS if (mount / "cgroup.procs").exists())
    path, mount = next(paths, None), next(mounts, None)
    return mount / path if mount is not None and path is not None else None


def _remove_forgotten(parent: Path) -> None:
    """Remove empty groups of supervisors that were killed together with their guardian."""
    for folder in parent.glob(f"{_PREFIX}*-*"):
        pid = folder.name.rpartition("-")[2]
        if pid.isdecimal() and not process_tree.stat(int(pid)).state:
            with contextlib.suppress(OSError):  # its workers have not ended yet
                folder.rmdir()
