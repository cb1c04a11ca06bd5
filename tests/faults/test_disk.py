"""A full disk, and a run folder that becomes read-only or is deleted."""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine import client
from engine.messages.commands import Resume, SaveCheckpoint, Stop
from engine.messages.events import CheckpointFailed, CheckpointSaved
from engine.runs.checkpoints import checkpoint_files
from engine.runs.run_state import RunState
from tests.support.full_disk import fill, small_disk
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

PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 24, 1, 2
"""Of <linux/prctl.h> and <linux/capability.h>."""

LARGE = {"width": 20_000}
"""A model whose checkpoint fills much of the disk."""


@pytest.fixture
def filler(traindeck_home: Path) -> Iterator[Path]:
    """Puts the data folder on its own disk of 64 MB; the path of a file that may fill the disk."""
    with small_disk(traindeck_home, "64m"):
        yield traindeck_home / "filler"


def test_a_full_disk_pauses_the_training_and_loses_nothing(filler: Path) -> None:
    run_id = client.start(spec("probe_torch", "torch/single", epochs=1_000_000, settings=LARGE))
    wait_for(run_id, is_training)
    full = time.monotonic()
    fill(filler)
    info = wait_for(run_id, lambda info: info.state is RunState.PAUSED)
    print(f"told to be paused {time.monotonic() - full:.2f} s after the disk was full")
    assert sentence("cannot-be-written-disk-is-full") in info.status.troubles["disk"]
    assert "make room, then resume" in info.status.troubles["disk"]
    with pytest.raises(client.CommandFailed, match="make room, then resume"):
        client.send(run_id, Resume())

    seq = client.send(run_id, SaveCheckpoint())
    text = sentence("step-could-not-be-saved", step=info.status.step)
    wait_for(run_id, lambda info: text in info.status.troubles.get("checkpoint", ""))
    assert not list((info.folder / "checkpoints").iterdir())

    filler.unlink()
    freed = time.monotonic()
    wait_for(run_id, lambda info: set(info.status.troubles) == {"checkpoint"})
    print(f"recovered {time.monotonic() - freed:.2f} s after there was room")
    client.send(run_id, Resume())
    wait_for_event(run_id, CheckpointSaved, seq)  # the failed checkpoint is saved again
    assert client.get_run(run_id).status.troubles == {}
    client.send(run_id, Stop())
    info = wait_for_end(run_id)
    assert (info.state, "with a checkpoint saved" in info.reason) == (RunState.STOPPED, True)
    assert curve(info, "train/loss")[0] == list(range(1, info.status.step + 1))
    wait_until_gone(info)


def bound_by_permissions(work: Callable[[], str]) -> str:
    """What `work` returns; the processes that it starts obey permissions, even those of root."""
    found = []

    def bounded() -> None:
        for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
            ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)  # of this thread only
        found.append(work())

    thread = threading.Thread(target=bounded)
    thread.start()
    thread.join()
    return found[0]


@pytest.mark.nightly
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere root ignores permissions")
@pytest.mark.usefixtures("own_templates")  # the shared ones have all rights
def test_a_run_folder_that_became_read_only_is_reported_and_no_point_is_lost() -> None:
    wanted = spec("probe_torch", "torch/single", epochs=1_000_000)
    run_id = bound_by_permissions(lambda: client.start(wanted))
    info = wait_for(run_id, is_training)
    folders = [info.folder, info.folder / "checkpoints", info.folder / "logs"]
    for folder in folders:
        folder.chmod(0o500)
    try:
        seq = client.send(run_id, SaveCheckpoint())
        failed = wait_for_event(run_id, CheckpointFailed, seq)
        assert sentence("could-not-be-saved-permission-denied") in failed.text
        assert client.get_run(run_id).status.troubles == {"checkpoint": failed.text}
        client.send(run_id, Stop())
        ended = wait_for_end(run_id)
        wait_until_gone(ended)
    finally:
        for folder in folders:
            folder.chmod(0o700)
    assert ended.state is RunState.STOPPED
    assert sentence("could-not-be-saved-permission-denied") in ended.reason
    assert curve(ended, "train/loss")[0] == list(range(1, ended.status.step + 1))


@pytest.mark.parametrize(
    "is_home", [False, pytest.param(True, marks=pytest.mark.nightly)], ids=["run", "home"]
)
def test_a_run_whose_folder_is_renamed_ends_and_is_resumed_where_it_was(
    traindeck_home: Path, is_home: bool
) -> None:
    """It keeps its points and checkpoints; nothing is left at its old path."""
    run_id = client.start(spec("probe_torch", "torch/single", epochs=1_000_000, max_restarts=5))
    info = wait_for(run_id, is_training)
    wait_for_event(run_id, CheckpointSaved, client.send(run_id, SaveCheckpoint()))
    old, new = (traindeck_home, "elsewhere") if is_home else (info.folder, "kept")
    moved = old.rename(old.with_name(new))
    begun = time.monotonic()
    wait_until_gone(info)
    print(f"all processes gone {time.monotonic() - begun:.2f} s after the folder was renamed")
    assert not old.exists()
    moved.rename(old)
    ended = client.get_run(run_id)
    assert ended.state is RunState.FAILED
    assert sentence("was-deleted-or-moved-move-it-back", folder=info.folder) in ended.reason
    assert curve(ended, "train/loss")[0] == list(range(1, ended.status.step + 1))
    [saved] = checkpoint_files.checkpoints(ended.folder)
    checkpoint_files.verify(saved.folder)
    client.resume(run_id)
    info = wait_for(run_id, lambda info: info.status.attempt == 2 and is_training(info))
    client.send(run_id, Stop())
    assert wait_for_end(run_id).state is RunState.STOPPED
    wait_until_gone(info)
