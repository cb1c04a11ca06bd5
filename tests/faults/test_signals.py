"""Ctrl-C, logout, shutdown and Stop at any moment: a checkpoint is saved and can be resumed."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from engine import client
from engine.messages.commands import Pause, SaveCheckpoint, Stop
from engine.messages.events import Paused, RunEnded, StopStage
from engine.processes.process import start_module
from engine.runs.run_state import RunState
from tests.support.runs import (
    TIMEOUT_SECONDS,
    curve,
    events,
    is_training,
    logs,
    processes_of,
    spec,
    wait_for,
    wait_for_end,
    wait_for_event,
    wait_for_run,
    wait_until_gone,
)
from tests.support.sentences import sentence

ROOT = Path(__file__).parent.parent.parent
pytestmark = [
    pytest.mark.usefixtures("processes"),
    pytest.mark.skipif(os.name != "posix", reason="the signals are POSIX's"),
]


def test_every_kind_of_end_at_every_moment_saves_a_checkpoint_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One run is ended at four moments and in four ways, and resumed each time."""
    monkeypatch.setenv("TEST_DWELL", "first-step")
    run_id = client.start(spec("slow_phases", "torch/single", epochs=1_000_000, loader_workers=1))
    folder = client.get_run(run_id).folder

    def stop() -> None:
        client.send(run_id, Stop())

    def signal_supervisor(number: int) -> None:
        os.kill(client.get_run(run_id).status.supervisor_pid, number)

    def shut_down() -> None:
        for found in processes_of(client.get_run(run_id)):
            with contextlib.suppress(psutil.NoSuchProcess):
                found.send_signal(signal.SIGTERM)
                found.send_signal(signal.SIGHUP)

    def reached(moment: str) -> None:
        note = folder / f"in-{moment}"
        wait_for(run_id, lambda info: note.exists() and info.state is RunState.RUNNING)

    def save_and_wait() -> None:
        wait_for(run_id, is_training)
        client.send(run_id, SaveCheckpoint())
        reached("checkpoint")

    moments: list[tuple[str, Callable[[], object], Callable[[], object]]] = [
        ("first-step", lambda: reached("first-step"), stop),
        ("checkpoint", save_and_wait, lambda: signal_supervisor(signal.SIGINT)),
        ("validation", lambda: reached("validation"), lambda: signal_supervisor(signal.SIGHUP)),
        ("training", lambda: wait_for(run_id, is_training), shut_down),
    ]
    seen, step = 0, 0
    for attempt, (moment, wait, end) in enumerate(moments, 1):
        if attempt > 1:
            monkeypatch.setenv("TEST_DWELL", moment)
            client.resume(run_id)
            wait_for(run_id, lambda info, n=attempt: info.status.attempt == n)  # type: ignore[misc]
        wait()
        begun = time.monotonic()
        end()
        info = wait_for_end(run_id)
        took = time.monotonic() - begun
        new = events(info, seen)
        seen += len(new)
        stages = [event.stage for event in new if isinstance(event, StopStage)]
        assert (info.state, stages) == (RunState.STOPPED, ["ask"]), f"{moment}\n{logs(info)}"
        assert sum(isinstance(event, RunEnded) for event in new) == 1
        saved = client.run_checkpoints(run_id)[-1].manifest
        assert saved.position.step == info.status.step >= step, moment
        assert "last" in saved.kinds
        step = info.status.step
        wait_until_gone(info)
        print(f"{moment}: {took:.2f} s")
    assert curve(info, "train/loss")[0] == list(range(1, step + 1))
    assert not list((folder / "checkpoints").glob("*.tmp"))


HALTED = """
import os, signal, time
from pathlib import Path
import torch
def model(): return torch.nn.Linear(4, 1)
def datasets(): return ((torch.ones(64, 4), torch.ones(64, 1)),) * 2
def loss(outputs, targets):
    while not Path(__file__).with_name("seen").exists():  # until the run is seen to train
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGSTOP)
"""


def test_a_worker_that_ignores_everything_is_killed_stage_by_stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is halted in its first step, so it gets neither commands nor signals."""

    def start_impatient(module: str, *arguments: str, **named: Any) -> subprocess.Popen[bytes]:
        assert module == "engine.supervisor"
        return start_module("tests.support.impatient_supervisor", *arguments, **named)

    monkeypatch.setattr(client, "start_module", start_impatient)
    path = tmp_path / "halted.py"
    path.write_text(HALTED)
    run_id = client.start(spec(str(path), "torch/single", stop_seconds=1.0))
    info = wait_for(run_id, lambda info: info.state is RunState.RUNNING)
    path.with_name("seen").touch()
    [worker] = info.status.worker_pids
    wait_for(run_id, lambda _: psutil.Process(worker).status() == psutil.STATUS_STOPPED)
    os.kill(info.status.supervisor_pid, signal.SIGTERM)
    info = wait_for_end(run_id)
    assert (info.state, info.reason) == (
        RunState.STOPPED,
        sentence("stopped-at-once-without-saving"),
    )
    stages = [event.stage for event in events(info) if isinstance(event, StopStage)]
    assert stages == ["ask", "terminate", "kill"]
    wait_until_gone(info)


SLOW_SAVE = """
import os, time
from pathlib import Path
import torch
from engine.runs.checkpoints import checkpoint_files
from engine.worker import event_sender
event_sender.BEAT_SECONDS = 0.1
def model(): return torch.nn.Linear(4, 1)
def datasets(): return ((torch.ones(640, 4), torch.ones(640, 1)),) * 2
def loss(outputs, targets):
    time.sleep(0.002)
    return ((outputs - targets) ** 2).mean()
publish, sync = checkpoint_files.publish, checkpoint_files.sync_to_disk
def slow_publish(folder, position, **named):
    files = checkpoint_files.temporary_folder(folder, position.step)
    for size in range(20):
        time.sleep(0.5)
        if os.environ["TEST_GROWS"] == "files":
            (files / "large").write_bytes(bytes(size))
    return publish(folder, position, **named)
def slow_sync(path, count=None):
    for _ in range(20 if count and path.suffix == ".pt" else 0):
        time.sleep(0.5)
        count(1)
    sync(path)
if os.environ["TEST_GROWS"] == "synced":
    checkpoint_files.sync_to_disk = slow_sync
else:
    checkpoint_files.publish = slow_publish
"""
"""Each save takes ten seconds or more."""


@pytest.mark.nightly
def test_a_stop_waits_for_a_slow_checkpoint_as_long_as_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "slow_save.py"
    path.write_text(SLOW_SAVE)
    wanted = spec(str(path), "torch/single", epochs=1_000_000, stop_seconds=8.0)
    runs = {}
    for grows in ("files", "synced", "nothing"):
        monkeypatch.setenv("TEST_GROWS", grows)
        runs[grows] = client.start(wanted)
    for run_id in runs.values():
        wait_for(run_id, is_training)
        client.send(run_id, Stop())
    ended = {grows: wait_for_end(run_id) for grows, run_id in runs.items()}
    for grows in ("files", "synced"):
        info = ended[grows]
        stages = [event.stage for event in events(info) if isinstance(event, StopStage)]
        assert stages == ["ask"], grows
        [saved] = client.run_checkpoints(info.id)
        assert saved.manifest.position.step == info.status.step, grows
        assert info.reason.endswith("with a checkpoint saved."), grows
    info = ended["nothing"]
    stages = [event.stage for event in events(info) if isinstance(event, StopStage)]
    assert stages[:2] == ["ask", "terminate"], "a save that hangs is given up"
    assert not client.run_checkpoints(info.id)


class Terminal:
    """`main.py train` on a terminal of its own, whose output is read."""

    def __init__(self) -> None:
        self._ours, its = pty.openpty()
        arguments = ["train", "--recipe", "digits", "--devices", "cpu:0", "--epochs", "100000"]
        self.command = subprocess.Popen(
            [sys.executable, "-c", _WITH_TERMINAL, "main.py", *arguments],
            cwd=ROOT,
            stdin=its,
            stdout=its,
            stderr=its,
            start_new_session=True,
        )
        os.close(its)
        self._leave = threading.Event()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def close(self) -> None:
        """Close the terminal: its processes get SIGHUP, and cannot write any more."""
        self._leave.set()
        self._reader.join()
        if self._ours >= 0:
            os.close(self._ours)
            self._ours = -1

    def _read(self) -> None:
        while not self._leave.is_set():
            if select.select([self._ours], [], [], 0.05)[0]:
                try:
                    os.read(self._ours, 65536)
                except OSError:  # all its processes have ended
                    return


_WITH_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


@pytest.mark.parametrize(
    "how", ["SIGTERM", pytest.param("the terminal is closed", marks=pytest.mark.nightly)]
)
def test_the_end_of_the_command_line_stops_its_run_with_a_checkpoint(how: str) -> None:
    """In the case of SIGTERM the run is paused at that moment."""
    terminal = Terminal()
    command = terminal.command
    try:
        run_id = wait_for_run(command)
        wait_for(run_id, is_training)
        if how == "SIGTERM":
            wait_for_event(run_id, Paused, client.send(run_id, Pause()))
            command.send_signal(signal.SIGTERM)
            command.send_signal(signal.SIGTERM)  # again, as a system may do: this is no force
        else:
            terminal.close()
        info = wait_for_end(run_id)
        assert (info.state, info.reason.partition(",")[2]) == (
            RunState.STOPPED,
            " with a checkpoint saved.",
        )
        [saved] = client.run_checkpoints(run_id)
        assert saved.manifest.position.step == info.status.step > 0
        assert command.wait(TIMEOUT_SECONDS) == 3
        wait_until_gone(info)
    finally:
        command.kill()
        command.wait()
        terminal.close()
