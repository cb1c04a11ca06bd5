"""A power cut: nothing acknowledged is lost, and afterwards no run is shown as running."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil
import pytest

from engine import client
from engine.messages.commands import SaveCheckpoint, Stop
from engine.messages.events import AttemptStarted, CheckpointSaved, Rewound
from engine.processes.process import PROJECT
from engine.runs.run_state import RunState
from engine.runs.store.run_store import RunStore
from tests.faults.power_cuts import SKIPPED, Outcome
from tests.support.runs import (
    curve,
    events,
    is_training,
    processes_of,
    spec,
    wait_for,
    wait_for_end,
    wait_for_event,
)

pytestmark = pytest.mark.usefixtures("processes")


@pytest.fixture
def foreigner() -> Iterator[psutil.Process]:
    """A process of another program."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield psutil.Process(process.pid)


def cut_the_power(info: client.RunInfo) -> None:
    """Kill all processes of the run at once, so that none notices the end of another."""
    processes = processes_of(info)
    for act in (psutil.Process.suspend, psutil.Process.kill):
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                act(process)
    psutil.wait_procs(processes, timeout=60)


def tear(path: Path) -> None:
    """Cut the end off, as if the last write had been interrupted."""
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 2000)


def test_after_a_power_cut_the_run_is_interrupted_and_goes_on_from_its_checkpoint(
    foreigner: psutil.Process,
) -> None:
    run_id = client.start(spec("probe_torch", "torch/single", epochs=1_000_000))
    wait_for(run_id, is_training)
    saved = wait_for_event(run_id, CheckpointSaved, client.send(run_id, SaveCheckpoint()))
    info = wait_for(run_id, is_training)
    cut_the_power(info)
    tear(info.folder / "run.sqlite-wal")
    half = info.folder / "checkpoints" / "step-99999999.tmp"
    half.mkdir()
    (half / "rank0.pt").write_bytes(b"ha")
    assert (info.folder / "control.json").exists(), "no process could delete it"

    begun = time.monotonic()
    found = client.get_run(run_id)
    assert found.state is RunState.INTERRUPTED
    assert "the machine was restarted" in found.reason
    assert [run.state for run in client.runs()] == [RunState.INTERRUPTED]
    assert [each.folder.name for each in client.run_checkpoints(run_id)] == [Path(saved.path).name]
    assert Path(found.status.checkpoint) == Path(saved.path), "the window offers to resume from it"
    with pytest.raises(client.CommandFailed, match="not active"):
        client.send(run_id, Stop())
    print(f"found out in {time.monotonic() - begun:.2f} s")

    # After the reboot, other processes get the pids of the dead ones.
    with contextlib.closing(RunStore(info.folder)) as store:
        born = store.status.supervisor_created - 3600
        store.append(AttemptStarted(1, foreigner.pid, born), time.time())
    assert client.get_run(run_id).state is RunState.INTERRUPTED

    client.resume(run_id)
    wait_for(run_id, lambda now: now.status.attempt == 2 and is_training(now))
    assert not half.exists()
    client.send(run_id, Stop())
    ended = wait_for_end(run_id)
    assert ended.state is RunState.STOPPED
    [rewound] = [event for event in events(ended) if isinstance(event, Rewound)]
    assert (rewound.step, rewound.checkpoint) == (saved.step, Path(saved.path).name)
    assert rewound.epoch == saved.epoch
    assert curve(ended, "train/loss")[0] == list(range(1, ended.status.step + 1))
    assert foreigner.is_running(), "a process with the pid of a dead one is left alone"


@pytest.mark.nightly
@pytest.mark.parametrize("disk", ["ext4", "synced"])
def test_the_power_is_cut_while_runs_start_train_end_and_are_copied(disk: str) -> None:
    """In a process of its own: the disk `synced` is a library that is loaded before all others."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tests.faults.power_cuts"),
            *("--disk", disk, "--cuts", "4", "--lost-seconds", "15"),
        ],
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        text=True,
        timeout=500,
        check=False,
    )
    if done.returncode == SKIPPED:
        pytest.skip(done.stdout)
    found = next(line for line in done.stdout.splitlines() if line.startswith("outcome: "))
    outcome = msgspec.json.decode(found.removeprefix("outcome: "), type=Outcome)
    assert outcome.faults == []
    assert (outcome.cuts, outcome.with_checkpoint, outcome.resumed) == (4, 3, 3)
    print(f"{disk}: the newest {outcome.most_seconds_lost:.2f} s of points were lost")
