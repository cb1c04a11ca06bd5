"""`python -m engine.planning.end_runs FOLDER` ends the runs of an own data folder, and deletes it.

It does so when its standard input closes: its owner has ended, in whichever way. If the owner wrote
OVER before, none of its runs is active.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from pathlib import Path

from engine.files import scratch_folder
from engine.processes import presence
from engine.processes.guardian import where_it_listened
from engine.processes.held_folder import HELD
from engine.processes.process import END_SIGNALS, ask_to_end, find_module
from engine.processes.process_tree import Identity, is_alive, send
from engine.system.paths import workers_lock

OVER = b"over"
END_SECONDS = 20.0
"""Time for a supervisor to end its workers, after which it is killed."""

WORKER_SECONDS = 40.0
"""Time for workers whose supervisor was killed: their guardian ends them."""

LOOK_SECONDS = 0.05


def main(home: Path) -> int:
    """Wait for the end of the owner, then end its runs; return the exit code."""
    for number in END_SIGNALS:
        signal.signal(number, signal.SIG_IGN)  # it lasts as long as its owner, and no longer
    presence.hold(home / HELD)
    told = b""
    while read := os.read(0, 4096):
        told += read
    if told != OVER:
        _end_runs(home)
    _wait_for_supervisors(home)
    for folder in (home / "runs").glob("*"):
        _remove_rest(folder)
    shutil.rmtree(home, ignore_errors=True)
    return 0


def _remove_rest(run_folder: Path) -> None:
    """Remove what a supervisor that was killed has left in the folder for temporary files."""
    pid, sockets = where_it_listened(run_folder)
    if sockets is not None:
        shutil.rmtree(sockets, ignore_errors=True)
    for scratch in scratch_folder.of_process(pid) if pid else ():
        scratch_folder.remove(scratch)


def _end_runs(home: Path) -> None:
    folders = [each for each in (home / "runs").glob("*") if each.is_dir()]
    supervisors = [
        found for each in folders if (found := find_module("engine.supervisor", str(each)))
    ]
    _end(supervisors)
    deadline = time.monotonic() + WORKER_SECONDS
    while any(map(presence.is_held, map(workers_lock, folders))) and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)


def _wait_for_supervisors(home: Path) -> None:
    """Wait until no supervisor writes there any more: it leaves the queue after the run is over."""
    deadline = time.monotonic() + END_SECONDS
    for folder in (home / "runs").glob("*"):
        while presence.is_locked(folder / "supervisor.lock") and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)


def _end(supervisors: list[Identity]) -> None:
    for each in supervisors:
        ask_to_end(*each)
    deadline = time.monotonic() + END_SECONDS
    while any(map(is_alive, supervisors)) and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
    for each in supervisors:
        send(each, signal.SIGKILL)  # alone: below it may be the template of other runs


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
