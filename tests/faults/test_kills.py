"""Processes of a run are killed: the others end by themselves, and the run can be resumed.

If the newest checkpoint was damaged, it is resumed from the one before."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from engine import client
from engine.client import RunInfo
from engine.messages.commands import Stop
from engine.messages.events import Rewound
from engine.runs.run_state import RunState
from tests.support.runs import (
    curve,
    events,
    failure_of,
    is_training,
    spec,
    wait_for,
    wait_for_end,
    wait_until_gone,
)

pytestmark = [
    pytest.mark.usefixtures("processes"),
    pytest.mark.nightly,
    pytest.mark.skipif(os.name != "posix", reason="it kills with signals"),
]


def test_after_any_process_is_killed_the_others_end_and_the_run_resumes() -> None:
    options = {"epochs": 1_000_000, "checkpoint_steps": 5, "orphan_seconds": 3600}
    run_id = client.start(spec("slow_phases", "torch/ddp", 2, **options))
    info = wait_for_work(run_id, 1)
    seconds = kill(info, info.status.worker_pids[1], signal.SIGSEGV)
    print(f"worker killed by SIGSEGV: pool gone after {seconds:.2f} s")
    failure = failure_of(wait_for_end(run_id))
    assert (failure.rank, failure.device, failure.signal) == (1, "cpu:1", "SIGSEGV")
    log = (info.folder / "logs" / "rank1.log").read_text()
    assert "Fatal Python error: Segmentation fault" in log, "written by its interpreter"
    assert failure.log_tail
    assert log.rstrip().endswith(failure.log_tail), "its last lines"

    client.resume(run_id)
    info = wait_for_work(run_id, 2)
    seconds = kill(info, info.status.supervisor_pid, signal.SIGKILL)
    print(f"supervisor killed by SIGKILL: workers gone after {seconds:.2f} s")
    info = client.get_run(run_id)
    assert info.state is RunState.INTERRUPTED
    assert curve(info, "train/loss")[0][:10] == list(range(1, 11))

    previous, newest = client.run_checkpoints(run_id)[-2:]
    for damage in (cut_off, flip_a_bit):
        whole = (newest.folder / "rank0.pt").read_bytes()
        damage(newest.folder / "rank0.pt")
        with pytest.raises(client.CheckpointUnusable, match=r"rank0\.pt") as refused:
            client.resume(run_id)
        assert refused.value.damaged == newest.folder.name
        assert refused.value.previous == previous.folder, "the one before it is offered"
        if damage is cut_off:
            (newest.folder / "rank0.pt").write_bytes(whole)
    client.resume(run_id, previous.folder)
    wait_for(run_id, lambda info: info.status.attempt == 3 and is_training(info))
    client.send(run_id, Stop(now=True))
    info = wait_for_end(run_id)
    rewound = [event for event in events(info) if isinstance(event, Rewound)][-1]
    assert (rewound.step, rewound.checkpoint) == (
        previous.manifest.position.step,
        previous.folder.name,
    )
    wait_until_gone(info)


def cut_off(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def flip_a_bit(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def wait_for_work(run_id: str, attempt: int) -> RunInfo:
    """The run once this attempt has saved a checkpoint of its own."""
    begun = wait_for(run_id, lambda info: info.status.attempt == attempt and is_training(info))
    first = begun.status.checkpoint_step
    return wait_for(run_id, lambda info: info.status.checkpoint_step > first)


def kill(info: RunInfo, pid: int, killer: signal.Signals) -> float:
    """Seconds from the signal to the end of every process of the run."""
    begun = time.monotonic()
    os.kill(pid, killer)
    wait_until_gone(info)
    return time.monotonic() - begun
