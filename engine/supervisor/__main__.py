"""`python -m engine.supervisor RUN_DIR [--resume CHECKPOINT]`: takes a run, or says who has it."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path

from filelock import FileLock, Timeout

from engine import process
from engine.events import AttemptStarted
from engine.spec_file import read_spec
from engine.store import RunStore
from engine.supervisor.inbox import Inbox, Interrupted
from engine.supervisor.run import Supervisor

LEAVE_SECONDS = 3.0
"""Time for the supervisor of the attempt before, which may be on its last steps, to be gone."""


def main(arguments: list[str]) -> int:
    """Take the run in the folder that the arguments name; the exit code of the process."""
    parser = argparse.ArgumentParser(prog="python -m engine.supervisor")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--resume", default="", metavar="CHECKPOINT")
    parsed = parser.parse_args(arguments)
    folder: Path = parsed.folder
    lock = FileLock(folder / "supervisor.lock", mode=0o600)
    try:
        lock.acquire(timeout=LEAVE_SECONDS)
    except Timeout:
        print(f"Run {folder.name} is active already.", file=sys.stderr)
        return 1
    inbox = Inbox()
    for name in ("SIGTERM", "SIGINT", "SIGHUP"):
        if hasattr(signal, name):  # Windows has no SIGHUP
            number = signal.Signals[name]
            signal.signal(number, lambda n, _: inbox.put(Interrupted(signal.Signals(n).name)))
    store = RunStore(folder)
    pid = os.getpid()
    store.append(AttemptStarted(store.status.attempt + 1, pid, process.created(pid)), time.time())
    store.commit()
    try:
        ended = Supervisor(folder, read_spec(folder), store, inbox).run(parsed.resume)
        print(ended.reason)
    finally:
        store.close()
        lock.release()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
