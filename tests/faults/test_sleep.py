"""The machine stays awake while a run trains; after a sleep, the run continues."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import psutil
import pytest

from engine import client
from engine.diagnosis.deadlines import STALL_SECONDS
from engine.messages.commands import Pause, Resume, Stop
from engine.messages.events import WorkerFailed
from engine.runs.run_state import RunState
from tests.support.inhibitor import Inhibitor, only_linux
from tests.support.runs import (
    TIMEOUT_SECONDS,
    events,
    is_training,
    spec,
    wait_for,
    wait_for_end,
    wait_until_gone,
)

pytestmark = pytest.mark.usefixtures("processes")


@only_linux
def test_the_machine_is_awake_while_a_run_trains_and_a_sleep_does_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inhibitor = Inhibitor(tmp_path, monkeypatch)
    run_id = client.start(spec("probe_torch", "torch/single", epochs=1_000_000))
    info = wait_for(run_id, is_training)
    helper = psutil.Process(inhibitor.wait_for_call())
    assert inhibitor.calls() == [
        f"--what=sleep:idle --who=Traindeck --why=run {run_id} trains --mode=block cat"
    ]

    client.send(run_id, Pause())
    wait_for(run_id, lambda info: info.state is RunState.PAUSED)
    helper.wait(TIMEOUT_SECONDS)  # a paused run does not keep the machine awake
    client.send(run_id, Resume())
    wait_for(run_id, lambda info: info.state is RunState.RUNNING)
    helper = psutil.Process(inhibitor.wait_for_call())

    # For the processes a sleep looks like this: all are halted, and later all continue.
    pids = (info.status.supervisor_pid, *info.status.worker_pids)
    processes = [psutil.Process(pid) for pid in pids]
    for process in processes:
        process.send_signal(signal.SIGSTOP)
    time.sleep(STALL_SECONDS + 0.5)  # the sleep itself
    step = client.get_run(run_id).status.step
    for process in processes:
        process.send_signal(signal.SIGCONT)
    woke = time.monotonic()
    wait_for(run_id, lambda info: info.status.step > step + 10)
    print(f"training again {time.monotonic() - woke:.2f} s after the wake-up")

    client.send(run_id, Stop())
    info = wait_for_end(run_id)
    assert info.state is RunState.STOPPED, info.reason
    assert info.status.attempt == 1
    assert not any(isinstance(event, WorkerFailed) for event in events(info))
    wait_until_gone(info)
    helper.wait(TIMEOUT_SECONDS)
