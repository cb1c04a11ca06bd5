"""A run folder on a file server or a FUSE process that is gone, or that wants a new ticket."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from engine import client
from engine.cli.output import Exit
from engine.messages.commands import SaveCheckpoint, Stop
from engine.messages.events import CheckpointFailed, CheckpointSaved
from engine.processes.process import PROJECT, start_module
from engine.runs.run_info import RunInfo
from engine.runs.run_state import RunState
from engine.system import paths
from tests.support.broken_disk import ext4_disk
from tests.support.lost_files import LostFiles
from tests.support.runs import (
    curve,
    is_training,
    spec,
    wait_for,
    wait_for_end,
    wait_for_event,
    wait_until_gone,
)
from tests.support.sentences import sentence

pytestmark = pytest.mark.usefixtures("processes")

ERRORS = (errno.EACCES, errno.ESTALE)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LostFiles:
    return LostFiles(paths.runs_folder(), tmp_path, monkeypatch)


@pytest.mark.nightly
def test_a_file_server_that_is_gone_ends_no_training(files: LostFiles) -> None:
    run_id = client.start(spec("probe_torch", "torch/single", epochs=1_000_000, cold_start=True))
    wait_for(run_id, is_training)
    seq = 0
    for error in ERRORS:
        files.lose(error)

        def is_known(info: RunInfo, reason: str = os.strerror(error).lower()) -> bool:
            return f"cannot be written: {reason}." in info.status.troubles.get("disk", "")

        wait_for(run_id, is_known)
        seq = client.send(run_id, SaveCheckpoint())
        failed = wait_for_event(run_id, CheckpointFailed, seq)
        assert os.strerror(error) in failed.text
        files.find()
        wait_for(run_id, lambda info: "disk" not in info.status.troubles)
    # The failed checkpoint had paused the training, which goes on by itself and saves it again.
    wait_for_event(run_id, CheckpointSaved, seq)
    info = wait_for(run_id, lambda info: info.state is RunState.RUNNING)
    step = info.status.step
    wait_for(run_id, lambda info: info.status.step > step)
    client.send(run_id, Stop())
    ended = wait_for_end(run_id)
    assert ended.reason.endswith("with a checkpoint saved.")
    assert curve(ended, "train/loss")[0] == list(range(1, ended.status.step + 1))


def test_a_disk_that_fails_leaves_a_supervisor_that_can_be_ended(
    traindeck_home: Path, tmp_path: Path
) -> None:
    with ext4_disk(traindeck_home, tmp_path / "image") as disk:
        run_id = client.start(spec("probe_torch", "torch/single", epochs=1_000_000))
        info = wait_for(run_id, is_training)
        supervisor = psutil.Process(info.status.supervisor_pid)
        disk.fail()
        with pytest.raises(psutil.TimeoutExpired):
            supervisor.wait(3.0)
        supervisor.send_signal(signal.SIGTERM)
        wait_until_gone(info)


@pytest.mark.nightly
def test_a_run_that_cannot_be_read_names_its_supervisor_and_can_be_stopped(
    files: LostFiles,
) -> None:
    run_id = client.start(spec("probe_torch", "torch/single", epochs=1_000_000, cold_start=True))
    info = wait_for(run_id, is_training)
    files.lose(errno.EIO)

    def call(*words: str) -> tuple[int, str]:
        command = [sys.executable, "main.py", *words]
        done = subprocess.run(command, capture_output=True, text=True, cwd=PROJECT, check=False)
        return done.returncode, done.stdout + done.stderr

    supervisor = f"Its supervisor, process {info.status.supervisor_pid}, "
    code, said = call("show", run_id)
    assert code == Exit.REFUSED
    assert f"Run {run_id} cannot be read" in said
    assert sentence("supervisor-still-lives", supervisor=supervisor, run_id=run_id) in said
    code, said = call("stop", run_id)
    assert (code, sentence("was-asked-by-signal-to-end", supervisor=supervisor) in said) == (
        0,
        True,
    )
    wait_until_gone(info)
    assert "still lives" not in call("show", run_id)[1]
    files.find()
    assert client.get_run(run_id).state.is_over


def test_an_error_of_the_supervisor_is_recorded_once_the_work_is_saved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def start_failing(module: str, *arguments: str, **named: Any) -> subprocess.Popen[bytes]:
        return start_module("tests.support.failing_supervisor", *arguments, **named)

    monkeypatch.setattr(client, "start_module", start_failing)
    run_id = client.start(spec("probe_torch", "torch/single", epochs=1_000_000))
    info = wait_for(run_id, is_training)
    (info.folder / "fail").touch()
    ended = wait_for_end(run_id)
    assert ended.state is RunState.FAILED
    assert ended.reason.startswith(sentence("supervisor-of-run-failed-division-by-zero-stopped"))
    assert ended.reason.endswith("with a checkpoint saved.")
    assert ended.status.checkpoint_step == ended.status.step
    wait_until_gone(ended)
