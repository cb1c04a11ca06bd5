"""Takes over a run from another machine that is gone, so that it can be resumed or deleted here."""

from __future__ import annotations

import time
from contextlib import closing

import msgspec
from filelock import FileLock, Timeout

from engine.messages.events import Notice
from engine.messages.heartbeat import last_beat
from engine.processes.machine import this_machine
from engine.runs.run_info import get_run
from engine.runs.run_state import RunState
from engine.runs.store.run_store import RunStore

SILENT_SECONDS = 120.0
"""Time without a sign of life after which a run may be taken over. The file server tells its age;
the clocks of the two machines may differ by some seconds."""


class CannotTakeOver(Exception):
    """The run cannot be taken over; the text is a sentence."""


def take_over(run_id: str) -> None:
    """Make a run of another machine an interrupted run of this one; do nothing for other runs.

    Raises CannotTakeOver, NoSuchRun, OSError or sqlite3.Error.
    """
    info = get_run(run_id)
    if info.state is not RunState.ELSEWHERE:
        return
    host = info.status.machine.host
    silence = time.time() - max(last_beat(info.folder), info.status.updated)
    alive = f"Run {run_id} is alive on {host}: "
    if silence < SILENT_SECONDS:
        raise CannotTakeOver(
            f"{alive}its last sign of life is {max(0.0, silence):.0f} s old. Stop it there; if "
            f"that machine is gone, try again {SILENT_SECONDS:.0f} s after its last sign of life."
        )
    try:
        with (
            FileLock(info.folder / "supervisor.lock", timeout=0, mode=0o600),
            closing(RunStore(info.folder)) as store,
        ):
            store.append(
                Notice(f"The run was taken over from {host}, which is silent."), time.time()
            )
            store.set_status(
                msgspec.structs.replace(
                    store.status, machine=this_machine(), supervisor_pid=0, worker_pids=()
                )
            )
    except Timeout:
        raise CannotTakeOver(f"{alive}its supervisor holds the lock of the run.") from None
