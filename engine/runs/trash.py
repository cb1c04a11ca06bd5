"""The trash: the folders of deleted runs, until the user empties it."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

from engine.files.atomic_file import sync_to_disk
from engine.runs import run_info
from engine.runs.checkpoints import checkpoint_place
from engine.system import paths


class CannotDelete(Exception):
    """A run cannot be deleted or restored; the text is a sentence."""


def delete(run_id: str) -> None:
    """Move the folder of a run that is over to the trash. Raises CannotDelete."""
    folder = paths.run_folder(run_id)
    if not paths.is_run(run_id):
        raise CannotDelete(f"There is no run {run_id}: another window may have deleted it.")
    with suppress(run_info.NoSuchRun):  # a damaged run may be deleted, unless its lock is held
        info = run_info.get_run(run_id)
        if not info.state.is_over:
            raise CannotDelete(f"Run {run_id} is {info.state}: stop it before you delete it.")
        if info.has_orphans:
            raise CannotDelete(f"Run {run_id} cannot be deleted yet. {info.reason}")
    if folder.is_symlink():  # the link itself is moved, without a lock in what it points to
        _move(folder, paths.trash_folder() / run_id, "deleted")
        return
    lock = FileLock(folder / "supervisor.lock", mode=0o600)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise CannotDelete(f"Run {run_id} is just being started: stop it first.") from None
    except OSError as error:
        raise CannotDelete(f"Run {run_id} cannot be deleted: {error}.") from error
    lock.release()  # some systems refuse to move a folder with a locked file
    _move(folder, paths.trash_folder() / run_id, "deleted")


def restore(run_id: str) -> None:
    """Restore a run from the trash. Raises CannotDelete."""
    source = paths.trash_folder() / run_id
    if run_id not in trashed():
        raise CannotDelete(f"Run {run_id} is not in the trash any more.")
    if paths.run_folder(run_id).exists():
        raise CannotDelete(f"Run {run_id} cannot come back: there is another run {run_id} now.")
    _move(source, paths.run_folder(run_id), "brought back")


def trashed() -> list[str]:
    """Return the ids of the runs in the trash, newest first."""
    return paths.trashed_ids()


def empty(run_ids: Collection[str]) -> int:
    """Delete those of these runs for good that are in the trash; return their number.

    Raises CannotDelete.
    """
    found = [run_id for run_id in trashed() if run_id in run_ids]
    for run_id in found:
        try:
            _remove(paths.trash_folder() / run_id)
        except OSError as error:
            raise CannotDelete(f"The trash cannot be emptied: {error}.") from error
    return len(found)


def _remove(path: Path) -> None:
    if path.is_symlink() or not path.is_dir():
        path.unlink()  # never what a link points to
    else:
        checkpoint_place.remove(path)
        shutil.rmtree(path)


def _move(source: Path, target: Path, done: str) -> None:
    try:
        paths.private_folder(target.parent.name)
        source.rename(target)
        sync_to_disk(target.parent)
        sync_to_disk(source.parent)
    except OSError as error:
        raise CannotDelete(f"Run {source.name} cannot be {done}: {error}.") from error
