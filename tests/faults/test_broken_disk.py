"""A disk that becomes read-only or fails, and a store that another program locks: the state of the
run, which the disk cannot tell, is told by its supervisor."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from engine import client
from engine.cli.commands import active_run
from engine.cli.output import NoAnswer
from engine.client import CommandFailed, RunInfo
from engine.messages.commands import Pause, Resume, Stop
from engine.messages.events import CheckpointSaved, Trouble
from engine.runs.run_info import SUPERVISOR
from engine.runs.run_state import RunState
from engine.runs.store.run_store import FILE_NAME
from tests.support.broken_disk import BrokenDisk, ext4_disk
from tests.support.runs import (
    TIMEOUT_SECONDS,
    curve,
    events,
    is_training,
    spec,
    wait_for,
    wait_for_end,
    wait_for_event,
    wait_until_gone,
)

pytestmark = pytest.mark.usefixtures("processes")


@pytest.fixture
def disk(traindeck_home: Path, tmp_path: Path) -> Iterator[BrokenDisk]:
    with ext4_disk(traindeck_home, tmp_path / "image") as made:
        yield made


def is_told_to_be_paused(info: RunInfo) -> bool:
    return info.state is RunState.PAUSED and not info.is_recorded


def test_a_run_on_a_disk_that_became_read_only_tells_its_state_and_its_end(
    disk: BrokenDisk, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id = client.start(spec("probe_torch", "torch/single", epochs=1_000_000))
    wait_for(run_id, is_training)
    disk.become_read_only()
    info = wait_for(run_id, is_told_to_be_paused)
    assert info.status.troubles.keys() == {"disk", SUPERVISOR}
    assert "read-only file system" in info.status.troubles[SUPERVISOR]
    with pytest.raises(CommandFailed, match="paused already"):
        client.send(run_id, Pause())
    with pytest.raises(CommandFailed, match="cannot be written yet"):
        client.send(run_id, Resume())
    with pytest.raises(NoAnswer, match="could not be saved: Read-only file system"):
        active_run.checkpoint(run_id)
    active_run.stop(run_id, now=False)
    said = capsys.readouterr().out
    assert f"Run {run_id} is stopped. Stopped after step {info.status.step}." in said
    assert "This end could not be recorded yet: read-only file system." in said
    ended = client.get_run(run_id)
    assert (ended.state, ended.is_recorded) == (RunState.STOPPED, False)
    client.send(run_id, Stop())  # nothing is left to do but to forget it
    wait_until_gone(ended)


def _lock_between_two_transactions(store: sqlite3.Connection) -> None:
    """Lock `store`, whose writer begins the next transaction at the first point after a commit.

    SQLite's own patience looks ten times a second, and so may miss every gap.
    """
    store.execute("PRAGMA busy_timeout = 0")
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not store.in_transaction:
        assert time.monotonic() < deadline, "the store was never free"
        with suppress(sqlite3.OperationalError):
            store.execute("BEGIN EXCLUSIVE")


def test_a_locked_store_is_named_as_the_reason_and_the_training_goes_on_afterwards() -> None:
    run_id = client.start(spec("probe_torch", "torch/single", epochs=1_000_000))
    info = wait_for(run_id, is_training)
    with closing(sqlite3.connect(info.folder / FILE_NAME, isolation_level=None)) as other:
        _lock_between_two_transactions(other)
        paused = wait_for(run_id, is_told_to_be_paused)
        assert "another program has locked the store" in paused.status.troubles[SUPERVISOR]
        other.execute("ROLLBACK")
    step = paused.status.step
    on = wait_for(run_id, lambda info: info.status.step > step and not info.status.troubles)
    assert (on.state, on.is_recorded) == (RunState.RUNNING, True)
    raised = [event.raised for event in events(on) if isinstance(event, Trouble)]
    assert raised == [True, False]
    seq = client.send(run_id, Stop())
    wait_for_event(run_id, CheckpointSaved, seq)
    ended = wait_for_end(run_id)
    assert curve(ended, "train/loss")[0] == list(range(1, ended.status.step + 1))
