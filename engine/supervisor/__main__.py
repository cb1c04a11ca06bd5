"""`python -m engine.supervisor RUN_DIR [--resume CHECKPOINT]` supervises the run in a folder."""

from __future__ import annotations

import gc

if __name__ == "__main__":
    gc.disable()  # garbage collection takes a tenth of the time of the imports

import argparse
import contextlib
import logging
import os
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from engine.files.atomic_file import remove_leftovers, sync_to_disk
from engine.files.ownership import folder_problem
from engine.messages.channel import Server
from engine.messages.events import AttemptStarted, Event, RecipeChosen, RecipeVersion
from engine.messages.heartbeat import Heartbeat
from engine.processes import children, control_group, presence, process
from engine.processes.machine import this_machine
from engine.repair.kept_files import keep_files
from engine.runs.run_info import RunInfo
from engine.runs.run_state import RunStatus
from engine.runs.store.run_store import RunStore
from engine.spec.recipe_copy import copy_problem
from engine.spec.run_spec import RunSpec
from engine.spec.spec_file import read_spec
from engine.supervisor.buffered_store import BufferedStore
from engine.supervisor.inbox import Inbox, SignalReceived, Told
from engine.supervisor.message_validation import SeriesLimit
from engine.supervisor.queue_admission import QueueAdmission
from engine.supervisor.supervisor import Supervisor
from engine.supervisor.unrecorded import record_unrecorded
from engine.system import logs, paths
from engine.system.paths import workers_lock
from engine.training.probes.memory_record import is_asked

if TYPE_CHECKING:
    from engine.exports.tensorboard_live import TensorBoardFollower

_log = logging.getLogger("engine.supervisor")

LOG_SECONDS = 20.0
"""Time for the rest of the TensorBoard log, after the end of the run."""

CASE_SECONDS = 8.0
"""Time for the failure file, after the end of the run; a resume waits for it."""

LOCK_SECONDS = 15.0
"""Time for the previous supervisor of the run, which may be about to exit, to release its lock: it
records facts, and a failure file, after the end of the run."""


def main(arguments: list[str]) -> int:
    """Supervise the run in the folder that the arguments name; return the process's exit code."""
    parser = argparse.ArgumentParser(prog="python -m engine.supervisor")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--resume", default="", metavar="CHECKPOINT")
    parser.add_argument("--recipe", default="", choices=list(RecipeVersion))
    parser.add_argument("--changes", default="", help="in what the recipe had changed")
    parsed = parser.parse_args(arguments)
    folder: Path = parsed.folder
    if problem := folder_problem(folder):  # its recipe is code
        print(f"Run {folder.name} cannot be used: {problem}.", file=sys.stderr)
        return 1
    logs.start("supervisor", folder / "logs")
    _log.info("run %s: supervisor starts %s", folder.name, arguments)
    lock = FileLock(folder / "supervisor.lock", mode=0o600)
    try:
        lock.acquire(timeout=LOCK_SECONDS)
    except Timeout:
        print(f"Run {folder.name} is active already.", file=sys.stderr)
        return 1
    deadline = time.monotonic() + LOCK_SECONDS
    while presence.is_held(workers_lock(folder)):
        if time.monotonic() > deadline:
            print(f"The workers of run {folder.name} have not ended yet.", file=sys.stderr)
            return 1
        time.sleep(0.02)
    for written_by_others in (folder, paths.home()):
        remove_leftovers(written_by_others)
    spec = read_spec(folder)
    admission = QueueAdmission(folder, spec)
    try:
        # Before the client can connect, so that runs queue in the order of their starts.
        admission.enter_queue()
    except OSError as error:
        print(f"The queue of the devices cannot be written: {error}.", file=sys.stderr)
        return 1
    children.adopt_orphans()
    inbox = Inbox()
    for number in process.END_SIGNALS:
        signal.signal(number, lambda n, _: inbox.put(SignalReceived(signal.Signals(n).name)))
    pid = os.getpid()
    try:
        run_store = RunStore(folder)
        limit = SeriesLimit(run_store.series())

        def append(event: Event, when: float) -> None:
            for admitted in limit.admit(event):
                run_store.append(admitted, when)

        # What the user has chosen just now is in the place of the copy that the store knows.
        if parsed.recipe != RecipeVersion.AS_IT_IS_NOW and (
            problem := copy_problem(folder, run_store.kept_files())
        ):
            print(problem, file=sys.stderr)
            run_store.close()
            admission.leave()
            return 1
        record_unrecorded(folder, run_store.status, append)
        attempt, created = run_store.status.attempt + 1, process.start_time(pid)
        started = AttemptStarted(attempt, pid, created, this_machine())
        run_store.append(started, time.time())
        keep_files(run_store, folder)
        if parsed.recipe:
            run_store.append(
                RecipeChosen(RecipeVersion(parsed.recipe), parsed.changes), time.time()
            )
        run_store.commit()
        sync_to_disk(run_store.wal)  # before the client hears that the run has started
    except (sqlite3.Error, OSError) as error:
        print(f"The store of run {folder.name} cannot be used: {error}.", file=sys.stderr)
        admission.leave()
        return 1
    try:
        server = Server(folder, inbox.connected)
    except OSError as error:
        print(f"Run {folder.name} cannot receive commands: {error}.", file=sys.stderr)
        run_store.close()
        admission.leave()
        return 1
    store = BufferedStore(folder, run_store)
    inbox.answer_status = store.answer
    follower = None
    try:
        ended = admission.wait_for_turn(store, inbox)
        if ended is None:
            if spec.tensorboard:
                follower = _follow(folder, spec, inbox)
            group = control_group.create(folder.name)
            try:
                supervisor = Supervisor(folder, spec, store, inbox, admission, group)
                ended = supervisor.run(parsed.resume)
            finally:
                if group:
                    group.remove()
            admission.leave()  # the next run need not wait for what is recorded besides
            supervisor.end_facts()
            if not is_asked():  # a short run that is measured is deleted
                _leave_case(folder, store.secrets)
        with contextlib.suppress(OSError):  # the log is on a disk that may be full
            print(ended.reason, flush=True)
        _log.info("run %s: %s: %s", folder.name, ended.state, ended.reason)
        admission.leave()
        if store.is_behind:
            _log.info("the end of the run could not be recorded: %s", store.write_problem)
        if follower and not follower.close(LOG_SECONDS):
            print("The TensorBoard log of the run is not complete.", file=sys.stderr)
    finally:
        Heartbeat(folder).end()
        server.close()
        store.backups.end(last=not store.is_behind)
        with contextlib.suppress(sqlite3.Error):
            run_store.close()
        admission.leave()
        lock.release()
    return 0


def _leave_case(folder: Path, secrets: Sequence[str]) -> None:
    """Write the failure file of a run that has failed; what goes wrong there is only logged."""

    def write() -> None:
        try:
            from engine.cases.collection import write_case  # no start waits for this import

            if file := write_case(folder, secrets):
                _log.info("run %s: its failure file is %s", folder.name, file)
        except Exception:  # a full disk, a folder that was deleted: the run is over
            _log.exception("run %s: its failure file cannot be written", folder.name)

    writing = threading.Thread(target=write, daemon=True, name="failure file")
    writing.start()
    writing.join(CASE_SECONDS)


def _follow(folder: Path, spec: RunSpec, inbox: Inbox) -> TensorBoardFollower:
    """Start to write the log that the spec asks for."""
    from engine.exports.tensorboard_live import TensorBoardFollower  # most runs write none

    status = RunStatus()
    info = RunInfo(folder.name, folder, spec, status, status.state, status.reason)
    return TensorBoardFollower(info, lambda text: inbox.put(Told(text)))


if __name__ == "__main__":
    gc.freeze()  # what is imported lives to the end, where Python would look for garbage in it
    gc.enable()
    sys.exit(main(sys.argv[1:]))
