"""`python -m engine.supervisor RUN_DIR [--resume CHECKPOINT]`: takes a run, or says who has it."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import signal
import sqlite3
import sys
import time
from pathlib import Path

from filelock import FileLock, Timeout

from engine.messages.channel import Server
from engine.messages.events import AttemptStarted
from engine.runs.store import RunStore
from engine.spec.spec_file import read_spec
from engine.supervisor.buffered_store import BufferedStore
from engine.supervisor.inbox import Inbox, Interrupted
from engine.supervisor.queue_admission import QueueAdmission
from engine.supervisor.supervisor import Supervisor
from engine.system import logs, process

_log = logging.getLogger("engine.supervisor")

LEAVE_SECONDS = 3.0
"""Time for the supervisor of the attempt before, which may be on its last steps, to be gone."""


def main(arguments: list[str]) -> int:
    """Take the run in the folder that the arguments name; the exit code of the process."""
    parser = argparse.ArgumentParser(prog="python -m engine.supervisor")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--resume", default="", metavar="CHECKPOINT")
    parsed = parser.parse_args(arguments)
    folder: Path = parsed.folder
    logs.start("supervisor", folder / "logs")
    _log.info("run %s: supervisor starts %s", folder.name, arguments)
    lock = FileLock(folder / "supervisor.lock", mode=0o600)
    try:
        lock.acquire(timeout=LEAVE_SECONDS)
    except Timeout:
        print(f"Run {folder.name} is active already.", file=sys.stderr)
        return 1
    spec = read_spec(folder)
    admission = QueueAdmission(folder, spec)
    try:
        admission.draw()  # before anybody can know of us: whoever starts two runs, one after the
        # other, finds them in the queue in that order
    except OSError as error:
        print(f"The queue of the devices cannot be written: {error}.", file=sys.stderr)
        return 1
    inbox = Inbox()
    for name in ("SIGTERM", "SIGINT", "SIGHUP"):
        if hasattr(signal, name):  # Windows has no SIGHUP
            number = signal.Signals[name]
            signal.signal(number, lambda n, _: inbox.put(Interrupted(signal.Signals(n).name)))
    pid = os.getpid()
    try:
        store = RunStore(folder)
        begun = AttemptStarted(store.status.attempt + 1, pid, process.created(pid))
        store.append(begun, time.time())
        store.commit()
        server = Server(folder, inbox.connected)
    except (sqlite3.Error, OSError) as error:
        print(f"The store of run {folder.name} cannot be written: {error}.", file=sys.stderr)
        admission.leave()
        return 1
    buffer = BufferedStore(folder, store)
    try:
        ended = admission.wait(buffer, inbox)
        if ended is None:
            ended = Supervisor(folder, spec, buffer, inbox, admission).run(parsed.resume)
        with contextlib.suppress(OSError):  # a full disk has no room for it
            print(ended.reason, flush=True)
        _log.info("run %s: %s: %s", folder.name, ended.state, ended.reason)
    finally:
        server.close()
        with contextlib.suppress(sqlite3.Error):
            store.close()
        admission.leave()
        lock.release()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
