"""The disks of a soak test: one that is frozen now and then, and others that become read-only.

`python -m tests.faults.soak_disk FOLDER` trains on a disk that becomes read-only, and prints the
faults.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from engine import client
from engine.client import CommandFailed
from engine.messages.commands import Stop
from engine.processes.process import PROJECT
from engine.runs.run_state import RunState
from engine.system import paths
from tests.faults.soak_processes import OVER_WITHIN, left_of
from tests.support.broken_disk import BrokenDisk
from tests.support.ext4_image import freeze, mount_image, thaw, unmount
from tests.support.runs import processes_of, spec

MEBIBYTES = 16 * 1024
"""Size of the disk that is frozen; its file takes what is written to it only."""


@contextlib.contextmanager
def disk(folder: Path) -> Iterator[bool]:
    """Mount a disk of its own on the new `folder`; without the rights for it, only create that.

    Yield whether it can be frozen.
    """
    refusal = mount_image(folder.with_suffix(".img"), folder, MEBIBYTES)
    try:
        if refusal:
            print(f"no disk is frozen or becomes read-only: {refusal}", flush=True)
            folder.mkdir(exist_ok=True)
        yield not refusal
    finally:
        if not refusal:
            unmount(folder)


def freeze_for(folder: Path, seconds: float) -> None:
    """Let all writes to the disk wait so long."""
    freeze(folder)
    try:
        time.sleep(seconds)
    finally:
        thaw(folder)


def start_read_only_run(folder: Path) -> subprocess.Popen[str]:
    """Start `main` on a new disk of its own, in the new `folder`."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.faults.soak_disk", str(folder)],
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        text=True,
    )


def faults_of_read_only_disk(folder: Path) -> Iterator[str]:
    """Train on the disk that is mounted on `folder` until it becomes read-only; stop the run."""
    run_id = client.start(spec("slow_phases", "torch/single", epochs=1_000_000))
    deadline = time.monotonic() + OVER_WITHIN
    while (info := client.get_run(run_id)).status.step < 50:
        if time.monotonic() > deadline or info.state.is_over:
            yield f"it is {info.state} at step {info.status.step}"
            return
        time.sleep(0.1)
    processes = processes_of(info)
    BrokenDisk(folder).become_read_only()
    while not (info := client.get_run(run_id)).status.troubles and time.monotonic() < deadline:
        time.sleep(0.1)
    if "disk" not in info.status.troubles:
        yield f"no trouble with the disk is reported: {info.state} {info.status.troubles}"
    with contextlib.suppress(CommandFailed):
        client.send(run_id, Stop())
    while not client.get_run(run_id).state.is_over and time.monotonic() < deadline:
        time.sleep(0.1)
    if left := left_of(processes, OVER_WITHIN):
        yield f"orphans {left}"
    if (state := client.get_run(run_id).state) not in (RunState.STOPPED, RunState.INTERRUPTED):
        yield f"after its end it is {state}"


def main(folder: Path) -> int:
    """Print the faults, and return the exit code."""
    refusal = mount_image(folder.with_suffix(".img"), folder, 96, errors="remount-ro")
    try:
        os.environ[paths.HOME_VARIABLE] = str(folder / "home")
        faults = [refusal] if refusal else list(faults_of_read_only_disk(folder))
    finally:
        unmount(folder)
    for fault in faults:
        print(f"with a disk that becomes read-only: {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
