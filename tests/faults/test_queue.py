"""Many runs at once on one device: they train one after the other, even if some are killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from engine import client
from engine.client import CommandFailed
from engine.messages.commands import Pause, Stop
from engine.messages.events import AttemptStarted, Queued, RunEnded
from engine.processes.process import PROJECT
from engine.runs import device_queue
from engine.runs.run_state import RunState
from engine.runs.store.store_reader import RunReader
from engine.system import paths
from tests.support.runs import events, is_training, spec, wait_for, wait_for_end, wait_until_gone

pytestmark = pytest.mark.usefixtures("processes")

AT_ONCE = 4
PROCESS = """
import sys, time
from pathlib import Path
from engine.spec.run_spec import RunSpec
from engine.runs.store.run_store import RunStore
from engine.supervisor.inbox import Inbox
from engine.supervisor.buffered_store import BufferedStore
from engine.supervisor.queue_admission import QueueAdmission

folder = Path(sys.argv[1])
store, devices = RunStore(folder), tuple(sys.argv[2:])
spec = RunSpec(recipe="digits", strategy="torch/single", devices=devices, queue="always")
admission = QueueAdmission(folder, spec)
print("ready", flush=True)
sys.stdin.readline()
admission.enter_queue()
print("queued", flush=True)
sys.stdin.readline()
admission.wait_for_turn(BufferedStore(folder, store), Inbox())
print(time.monotonic(), flush=True)
time.sleep(0.03)  # its work
print(time.monotonic(), flush=True)
admission.leave()
"""


def until(condition: Callable[[], bool], what: str, seconds: float = 60.0) -> float:
    """Seconds until `condition` held."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < seconds, what
        time.sleep(0.01)
    return time.monotonic() - began


def test_processes_that_enter_at_the_same_time_are_admitted_one_by_one(tmp_path: Path) -> None:
    processes = []
    for number in range(AT_ONCE):
        folder = tmp_path / str(number)
        folder.mkdir()
        processes.append(
            subprocess.Popen(
                [sys.executable, "-c", PROCESS, str(folder), "cpu:0", f"cpu:{number % 2 + 1}"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=PROJECT,
            )
        )
    try:
        _let_go(processes, when="ready\n")
        until(lambda: len(device_queue.read()) == AT_ONCE, "a process has no ticket")
        order = [int(ticket.run) for ticket in device_queue.read()]
        _let_go(processes, when="queued\n")
        stays = [tuple(map(float, each.communicate(timeout=120)[0].split())) for each in processes]
    finally:
        for each in processes:
            each.kill()
            each.wait()
    assert [each.returncode for each in processes] == [0] * AT_ONCE
    assert sorted(order) == list(range(AT_ONCE))
    for before, after in pairwise(order):
        assert stays[before][1] <= stays[after][0]
    assert device_queue.read() == []


def _let_go(processes: list[subprocess.Popen[str]], when: str) -> None:
    """Wait until all of them have printed `when`, then let all of them continue."""
    for each in processes:
        assert each.stdout is not None
        assert each.stdout.readline() == when
    for each in processes:
        assert each.stdin is not None
        each.stdin.write("\n")
        each.stdin.flush()


def test_runs_on_one_device_wait_for_each_other_also_when_some_are_killed() -> None:
    """One run trains, four are queued: one is moved, one stopped, two are killed (-9).

    The file of the queue is damaged, too.
    """
    wanted = spec("probe_torch", "torch/single", queue="always")
    holder = client.start(spec("probe_torch", "torch/single", epochs=1_000_000, queue="always"))
    with ThreadPoolExecutor(4) as pool:
        started = set(pool.map(client.start, [wanted] * 4))
    for run in started:
        wait_for(run, lambda info: info.state is RunState.QUEUED)
    (paths.home() / device_queue.FILE_NAME).write_bytes(b"\0" * 512)  # as a power cut may leave it
    line = [ticket.run for ticket in device_queue.read()]
    assert line[0] == holder
    assert set(line[1:]) == started
    first, killed, stopped, moved = line[1:]
    place = f"Queued behind run {holder} on cpu:0 (4th in line)."
    wait_for(moved, lambda info: info.reason == place)

    device_queue.move(moved, "first")
    place = f"Queued behind run {holder} on cpu:0 (next in line)."
    wait_for(moved, lambda info: info.reason == place)
    with pytest.raises(CommandFailed, match="waits in the queue"):
        client.send(killed, Pause())

    client.send(stopped, Stop())
    info = wait_for_end(stopped)
    assert (info.state, info.status.worker_pids) == (RunState.STOPPED, ())
    assert "before it began" in info.reason

    psutil.Process(client.get_run(killed).status.supervisor_pid).send_signal(signal.SIGKILL)
    until(lambda: client.get_run(killed).state is RunState.INTERRUPTED, "it is dead")
    place = f"Queued behind run {holder} on cpu:0 (2nd in line)."
    wait_for(first, lambda info: info.reason == place)

    wait_for(holder, is_training)
    psutil.Process(client.get_run(holder).status.supervisor_pid).send_signal(signal.SIGKILL)
    seconds = until(
        lambda: client.get_run(moved).state is not RunState.QUEUED, "no run left the queue"
    )
    print(f"the next run left the queue {seconds:.2f} s after the one before was killed")

    ends = [wait_for_end(run) for run in (moved, first)]
    assert [info.state for info in ends] == [RunState.FINISHED] * 2
    assert _ended(moved) <= _turn_came(first)
    assert [type(event) for event in events(ends[0])][:2] == [AttemptStarted, Queued]
    for info in ends:
        wait_until_gone(info)
    assert device_queue.read() == []


def _ended(run: str) -> float:
    return next(time for time, event in _stored(run) if isinstance(event, RunEnded))


def _turn_came(run: str) -> float:
    return next(time for time, event in _stored(run) if event == Queued((), ""))


def _stored(run: str) -> list[tuple[float, object]]:
    with RunReader(client.get_run(run).folder) as reader:
        return [(stored.time, stored.event) for stored in reader.events_after(0)]
