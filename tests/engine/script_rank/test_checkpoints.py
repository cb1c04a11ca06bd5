"""A script's checkpoint: its progress while it is published, and the events that lie beside it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from engine.messages.channel import Alive
from engine.messages.events import CheckpointSaved
from engine.runs.checkpoints import checkpoint_files
from engine.script_rank.checkpoints import Checkpoints
from engine.script_rank.exchange import Exchange
from engine.script_rank.frames import Saved
from engine.spec.run_spec import RunSpec
from engine.worker.session import WorkerSession


def test_what_is_read_again_for_its_checksum_is_progress_for_all(tmp_path: Path) -> None:
    folder = checkpoint_files.begin(tmp_path, 3)
    os.utime(folder, (1.0, 1.0))
    before = checkpoint_files.save_progress(tmp_path)
    publishing: Any = SimpleNamespace(_session=SimpleNamespace(folder=tmp_path, alive=Alive()))
    Checkpoints._count(publishing, 3, 1000)
    assert publishing._session.alive == Alive("checkpoint", 1000)
    assert checkpoint_files.save_progress(tmp_path) > before


class _Session:
    """The worker session of rank 0, as far as checkpoints use it."""

    rank, world_size, metric_directions = 0, 1, {}
    alive = Alive()

    def __init__(self, folder: Path, *, is_durable: bool = True, is_orphaned: bool = False) -> None:
        self.folder = folder
        self.spec = RunSpec(recipe="mine.py", strategy="script/single", devices=("cpu:0",))
        self.is_orphaned = is_orphaned
        self._is_durable = is_durable
        self.emitted: list[object] = []
        self.kept_before: list[str] = []
        """The folders into which events were written."""

    def flush(self) -> Callable[[], bool]:
        return lambda: self._is_durable

    def emit(self, event: object) -> None:
        self.emitted.append(event)

    def keep_unrecorded(self, folder: Path) -> None:
        assert folder.is_dir()
        self.kept_before.append(folder.name)

    save_unrecorded = keep_unrecorded


def _checkpoints(session: _Session) -> Checkpoints:
    notes: dict[str, str] = {}
    exchange = SimpleNamespace(
        note=notes.__setitem__, of_all=lambda what: [notes[what]], forget=notes.pop
    )
    checkpoint_files.begin(session.folder, 3)
    return Checkpoints(cast(WorkerSession, session), cast(Exchange, exchange))


@pytest.mark.parametrize(
    ("is_durable", "is_orphaned", "is_kept"),
    [(True, False, False), (False, False, True), (True, True, True), (False, True, True)],
)
def test_events_lie_beside_a_checkpoint_unless_the_supervisor_has_recorded_them(
    tmp_path: Path, is_durable: bool, is_orphaned: bool, is_kept: bool
) -> None:
    session = _Session(tmp_path, is_durable=is_durable, is_orphaned=is_orphaned)
    _checkpoints(session).saved(Saved(number=1, step=3))
    assert [type(each) for each in session.emitted] == [CheckpointSaved]
    temporary = checkpoint_files.temporary_folder(tmp_path, 3).name
    assert session.kept_before == ([temporary] if is_kept else [])


def test_the_last_events_are_added_to_the_last_checkpoint_if_there_is_one(tmp_path: Path) -> None:
    session = _Session(tmp_path)
    checkpoints = _checkpoints(session)
    # The folder that the number before the first step would name is a real one here.
    checkpoint_files.final_folder(tmp_path, -1).mkdir(parents=True)
    checkpoints.leave()
    assert session.kept_before == []
    checkpoints.saved(Saved(number=1, step=3))
    checkpoints.leave()
    assert session.kept_before == [checkpoint_files.final_folder(tmp_path, 3).name]


def test_a_checkpoint_of_step_0_counts(tmp_path: Path) -> None:
    session = _Session(tmp_path)
    checkpoints = _checkpoints(session)
    shutil.rmtree(checkpoint_files.temporary_folder(tmp_path, 3))
    checkpoint_files.begin(tmp_path, 0)
    checkpoints.saved(Saved(number=1, step=0))
    checkpoints.leave()
    assert session.kept_before == [checkpoint_files.final_folder(tmp_path, 0).name]
