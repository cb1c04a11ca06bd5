"""Workers that never get ready: the supervisor ends the run by force."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
import pytest

from engine.diagnosis import deadlines
from engine.messages.channel import Server
from engine.runs.store import RunStore
from engine.supervisor.buffered_store import BufferedStore
from engine.supervisor.inbox import Inbox
from engine.supervisor.queue_admission import QueueAdmission
from engine.supervisor.supervisor import Supervisor
from tests.support.recorded_runs import new_run_folder, this_process_supervises
from tests.support.runs import spec

pytestmark = pytest.mark.usefixtures("processes")

HANGS_AT_IMPORT = """
import signal, threading
import torch
signal.signal(signal.SIGTERM, signal.SIG_IGN)
threading.Event().wait()

def model(): ...
def datasets(): ...
"""


def test_workers_that_never_get_ready_are_named_and_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadlines, "START_SECONDS", 2.0)
    path = tmp_path / "deaf.py"
    path.write_text(HANGS_AT_IMPORT)
    wanted = spec(str(path), "torch/ddp", 2)
    folder = new_run_folder(wanted)
    store = RunStore(folder)
    store.append(this_process_supervises(), time.time())
    inbox = Inbox()
    server = Server(folder, inbox.connected)
    admission = QueueAdmission(folder, wanted)
    try:
        ended = Supervisor(folder, wanted, BufferedStore(folder, store), inbox, admission).run()
        workers = store.status.worker_pids
    finally:
        server.close()
        store.close()
    assert ended.state == "failed"
    assert ended.reason.startswith(
        "Rank 0 on cpu:0, Rank 1 on cpu:1 did not start within 2 s: the logs in "
    )
    assert len(workers) == 2
    _, alive = psutil.wait_procs(
        map(psutil.Process, filter(psutil.pid_exists, workers)), timeout=30
    )
    assert not alive
