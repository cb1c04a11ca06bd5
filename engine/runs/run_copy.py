"""Copies a run up to one of its checkpoints, to start a new run from there."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec

from engine.files.atomic_file import sync_tree
from engine.files.sqlite_file import open_readonly
from engine.messages.events import CheckpointSaved
from engine.processes import process
from engine.processes.machine import this_machine
from engine.runs.checkpoints import checkpoint_files
from engine.runs.run_state import RunState
from engine.runs.store import run_store
from engine.runs.store.run_store import RunStore
from engine.runs.store.store_reader import RunReader
from engine.spec import recipe_copy, spec_file
from engine.system import paths


def copy_run(folder: Path, saved: Path, trained_by: int | None = None) -> Path:
    """Create a new run folder from a run in `folder` and its checkpoint `saved`.

    The copy has this checkpoint, and the curves, events and settings up to it, but no logs. Its
    state is `starting`. `trained_by`: the number of a later attempt, whose recipe and settings the
    copy gets instead. On OSError or sqlite3.Error the copy is deleted.
    """
    new = paths.create_run_folder()
    try:
        shutil.copytree(
            saved, new / checkpoint_files.FOLDER / saved.name, copy_function=_link_or_copy
        )
        attempt = _copy_store(folder, new, checkpoint_files.read_manifest(saved).position)
        if trained_by is not None:
            recipe_copy.copy_of_attempt_to(folder, new, trained_by)
            shutil.copyfile(
                spec_file.spec_of_attempt(folder, trained_by), new / spec_file.FILE_NAME
            )
        else:
            if recipe_copy.has_copy(folder):
                recipe_copy.copy_to(folder, new, attempt)
            _copy_specs(folder, new, attempt)
        sync_tree(new)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    return new


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)  # these files are large and never change
    except OSError:  # this file system has no hard links
        shutil.copyfile(source, target)


def _copy_store(folder: Path, new: Path, position: checkpoint_files.Position) -> int:
    """Copy the store up to `position`; return the number of the attempt that trained it."""
    with (
        closing(open_readonly(folder / run_store.FILE_NAME)) as read,
        closing(sqlite3.connect(new / run_store.FILE_NAME)) as written,
    ):
        read.backup(written)
    with closing(RunStore(new)) as copy:
        whole = copy.status
        if seq := _saved_at(new, position.step):
            copy.delete_events_after(seq)
        if copy.status.attempt != whole.attempt:
            # What the workers of that attempt kept beside the checkpoint was recorded since.
            for file in (new / checkpoint_files.FOLDER).glob(
                f"*/{checkpoint_files.unrecorded('*')}"
            ):
                file.unlink()
        copy.rewind(position.step, validates_again=position.batch > 0)
        status, pid = copy.status, os.getpid()
        copy.set_status(
            msgspec.structs.replace(
                status,
                state=RunState.STARTING,
                reason="",
                recorded=whole.recorded,
                started=0.0,  # it starts now; `seconds_before` keeps the earlier duration
                supervisor_pid=pid,  # until the supervisor of the copy has started
                supervisor_created=process.start_time(pid),
                machine=this_machine(),
            )
        )
        return status.attempt


def _saved_at(folder: Path, step: int) -> int:
    """Return the number of the CheckpointSaved event of `step`; 0 if it was lost."""
    with RunReader(folder) as reader:
        found = reader.newest_event(
            lambda event: isinstance(event, CheckpointSaved) and event.step == step
        )
    return found.seq if found else 0


def _copy_specs(folder: Path, new: Path, attempt: int) -> None:
    """Copy the specs of the attempts up to number `attempt`; the last becomes `spec.toml`."""
    for number, older in spec_file.older_specs(folder).items():
        if number <= attempt:
            shutil.copyfile(older, new / older.name)
    shutil.copyfile(spec_file.spec_of_attempt(folder, attempt), new / spec_file.FILE_NAME)
