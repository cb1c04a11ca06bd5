"""A data folder that several machines or containers share, with real namespaces: another boot and
another name make another machine, another namespace of processes makes another container."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import client
from engine.client import CommandFailed
from engine.messages.commands import Stop
from engine.messages.events import Queued
from engine.processes.process import PROJECT
from engine.runs import device_queue
from engine.runs.run_index import RunIndex
from engine.runs.run_state import RunState
from tests.support.recorded_runs import new_run_folder
from tests.support.runs import events, is_training, spec, wait_for, wait_for_end, wait_until_gone
from tests.support.sentences import sentence

pytestmark = [
    pytest.mark.usefixtures("processes"),
    pytest.mark.skipif(
        not hasattr(os, "geteuid") or os.geteuid() != 0 or not shutil.which("unshare"),
        reason="only root can make namespaces",
    ),
]

SUPERVISOR = """
import sys, time
from pathlib import Path
from filelock import FileLock
from engine.messages.events import AttemptStarted, TrainingStarted
from engine.messages.heartbeat import Heartbeat
from engine.runs.store.run_store import RunStore
from engine.spec.spec_file import read_spec
from engine.supervisor.queue_admission import QueueAdmission
from engine.processes.machine import this_machine
from engine.processes.process import start_time
import os

folder = Path(sys.argv[1])
with FileLock(folder / "supervisor.lock"):
    QueueAdmission(folder, read_spec(folder)).enter_queue()
    store = RunStore(folder)
    started = AttemptStarted(1, os.getpid(), start_time(os.getpid()), this_machine())
    store.append(started, time.time())
    store.append(TrainingStarted(0, 10, 2, 1, parameters=650), time.time())
    store.commit()
    heartbeat = Heartbeat(folder)
    print("trains", flush=True)
    while True:
        heartbeat.beat()
        time.sleep(0.1)
"""
"""Owns a run without a worker, as a supervisor does."""

OTHER_MACHINE = """
mount --bind "$1/boot" /proc/sys/kernel/random/boot_id
mount --bind "$1/id" /etc/machine-id
hostname nodeB
shift
exec "$@"
"""


@contextlib.contextmanager
def supervised(folder: Path, *namespaces: str) -> Iterator[None]:
    """Let a process in namespaces of its own supervise the run in `folder`."""
    program = [sys.executable, "-c", SUPERVISOR, str(folder)]
    with subprocess.Popen(
        ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *namespaces, *program],
        stdout=subprocess.PIPE,
        text=True,
        cwd=PROJECT,
    ) as started:
        assert started.stdout is not None
        if started.stdout.readline() != "trains\n":
            pytest.skip("namespaces are not allowed here")
        try:
            yield
        finally:
            started.kill()


@pytest.fixture
def other_machine(tmp_path: Path) -> tuple[str, ...]:
    """The arguments that make a process believe to be on another machine."""
    (tmp_path / "boot").write_text("another boot\n")
    (tmp_path / "id").write_text("d2\n")
    if not Path("/etc/machine-id").exists():
        pytest.skip("this system has no /etc/machine-id")
    return ("--uts", "--mount", "sh", "-ec", OTHER_MACHINE, "sh", str(tmp_path))


def test_a_run_in_another_container_keeps_its_devices_until_it_has_ended() -> None:
    wanted = spec("probe_torch", "torch/single", epochs=1_000_000, queue="always")
    folder = new_run_folder(wanted)
    with supervised(folder):
        found = client.get_run(folder.name)
        assert found.state is RunState.ELSEWHERE
        assert sentence("in-or-outside-of-container") in found.reason
        with pytest.raises(CommandFailed, match=sentence("in-or-outside-of-container").pattern):
            client.send(folder.name, Stop())
        waits = client.start(wanted)
        info = wait_for(waits, lambda info: info.state is RunState.QUEUED)
        assert info.reason.startswith(sentence("queued-behind-run-on-cpu", folder=folder.name))
        assert [ticket.run for ticket in device_queue.read()] == [folder.name, waits]
    info = wait_for(waits, is_training)
    assert client.get_run(folder.name).state is RunState.INTERRUPTED
    client.send(waits, Stop())
    wait_for_end(waits)


def test_a_run_on_another_machine_is_left_alone_and_has_other_devices(
    other_machine: tuple[str, ...],
) -> None:
    wanted = spec("probe_torch", "torch/single", epochs=1_000_000, queue="always")
    folder = new_run_folder(wanted)
    with supervised(folder, *other_machine):
        found = client.get_run(folder.name)
        assert found.state is RunState.ELSEWHERE
        assert found.reason.startswith(sentence("it-is-running-on-nodeb-command"))
        trains = client.start(wanted)
        info = wait_for(trains, is_training)
        assert not [event for event in events(info) if isinstance(event, Queued)]
        assert {ticket.run for ticket in device_queue.read()} == {folder.name, trains}
        client.send(trains, Stop())
        wait_until_gone(wait_for_end(trains))
        assert [ticket.run for ticket in device_queue.read()] == [folder.name]
    assert client.get_run(folder.name).state is RunState.ELSEWHERE, "it may still be alive there"
    listed = {info.id: info.state for info in RunIndex().runs()}
    assert listed[folder.name] is RunState.ELSEWHERE
