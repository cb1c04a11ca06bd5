"""Checks the files beside the store of a run: settings, recipe, notes, checkpoints, leftovers."""

from __future__ import annotations

import ast
import shutil
import sqlite3
import stat
from collections.abc import Sequence
from pathlib import Path

from engine.files import ownership
from engine.files.atomic_file import create_folders, leftovers, sync_to_disk, write_atomically
from engine.files.regular_file import read_regular
from engine.repair import store_salvage
from engine.repair.report import RunReport, free_name, move_aside
from engine.repair.store_check import open_store, stored_status
from engine.runs import run_index
from engine.runs.checkpoints import checkpoint_files, checkpoint_place
from engine.runs.checkpoints.checkpoint_files import CheckpointDamaged, CheckpointTooNew
from engine.runs.checkpoints.checkpoint_place import PlaceAway
from engine.runs.run_notes import FILE_NAME as NOTES
from engine.runs.run_notes import UnreadableNotes, read_notes
from engine.runs.store.run_store import read_kept_files
from engine.spec import spec_file
from engine.spec.recipe_copy import RECIPE, KeptFile, changed_files, is_code
from engine.spec.recipe_file import LARGEST_RECIPE, read_recipe
from engine.spec.spec_file import FILE_NAME as SPEC
from engine.spec.spec_file import UnreadableSpec, read_spec


def kept_files(folder: Path) -> tuple[list[KeptFile], bool]:
    """Return the copies of the run's files in its store, by attempt, and whether these are all.

    Those of a damaged store are taken from its backup. Raises OSError, and sqlite3.Error if another
    process is the cause.
    """
    try:
        with open_store(folder) as store:
            found, are_all = read_kept_files(store), True
    except sqlite3.Error:  # a damaged store, which has its own finding
        found, are_all = store_salvage.readable_files(folder), False
    return [file for file in found if file.name == SPEC or is_code(file.name)], are_all


def check_settings(folder: Path, kept: Sequence[KeptFile], report: RunReport) -> None:
    """Check `spec.toml`; restore it from the store, or from the cached list of runs."""
    try:
        read_spec(folder)
    except UnreadableSpec as error:
        problem = str(error)
    else:
        return
    copies = {file.name: file.body for file in kept}
    if SPEC in copies:
        _restore(folder, SPEC, copies[SPEC], problem, report)
    elif (spec := run_index.cached_spec(folder.name)) is not None:
        report.mendable(
            SPEC,
            problem,
            "the settings are restored from the list of runs, without those of the environment",
            lambda: _replace(folder, SPEC, spec_file.encode_spec(spec, {}).encode()),
        )
    else:
        advice = "Its store holds no copy of them. Copy the file from a run with equal settings."
        report.unmendable(SPEC, problem, advice)


def check_recipe(folder: Path, kept: Sequence[KeptFile], are_all: bool, report: RunReport) -> None:
    """Check the copies of the recipe and of its modules; restore them from the store.

    Raises OSError.
    """
    copies = {file.name: file.body for file in kept}
    if RECIPE not in copies and (_is_script(folder) or _is_imported(folder)):
        return  # another program than Python is not copied; a script runs in its own place
    if RECIPE not in copies and (problem := _recipe_problem(folder / RECIPE)):
        advice = "Its store holds no copy. Copy the recipe that it was trained with here."
        report.unmendable(RECIPE, problem, advice)
    for name in changed_files(folder, kept):
        problem = (
            _recipe_problem(folder / name) if name == RECIPE else _module_problem(folder / name)
        )
        if not problem and not are_all:
            continue  # the newest copy was perhaps lost with a part of the store
        problem = problem or f"{name} is not the file that the last attempt trained."
        _restore(folder, name, copies[name], problem, report)


def check_notes(folder: Path, report: RunReport) -> None:
    """Check the user's notes; damaged ones are moved aside."""
    try:
        read_notes(folder)
    except UnreadableNotes as error:
        path = folder / NOTES
        report.mendable(
            NOTES,
            str(error),
            f"the file is kept as {free_name(path).name}, for you to read; the run has no notes",
            lambda: move_aside(path),
        )


def check_checkpoints(folder: Path, report: RunReport) -> None:
    """Compare all checkpoints with their checksums; damaged and unfinished ones are taken away.

    The newest one that the run has saved must be there: the retention never deletes it.
    """
    try:
        checkpoint_place.check(folder)
    except PlaceAway as error:
        report.left_alone(checkpoint_files.FOLDER, f"{error}.")
        return
    misplaced = checkpoint_files.misplaced(folder)
    if not misplaced and (lost := _lost_checkpoint(folder)):
        newest = max(checkpoint_files.folders(folder).values(), default=None)
        others = f"The newest one there is is {newest.name}" if newest else "The run has no other"
        report.unmendable(
            f"{checkpoint_files.FOLDER}/{lost}",
            f"The newest checkpoint of the run, {lost}, is not there any more.",
            f"{others}; copy the lost one here if you have it.",
        )
    for path in misplaced:
        report.mendable(
            str(path.relative_to(folder)),
            "In the place of a folder of yours is something else: a file, a pipe, or a link.",
            f"it is kept as {free_name(path).name}",
            lambda path=path: move_aside(path),  # type: ignore[misc]
        )
    for path in checkpoint_files.folders(folder).values():
        report.progress(path.name)
        file = f"{checkpoint_files.FOLDER}/{path.name}"
        try:
            checkpoint_files.verify(path)
        except CheckpointTooNew as error:
            report.left_alone(file, str(error))
        except CheckpointDamaged as error:
            before = checkpoint_files.newest_intact_before(path)
            others = f"{before.name} is intact" if before else "no checkpoint before it is intact"
            report.mendable(
                file,
                str(error),
                f"it is kept as {free_name(path).name} and not offered any more; {others}",
                lambda path=path: move_aside(path),  # type: ignore[misc]
            )
    for path in checkpoint_files.unfinished(folder):
        if any(path.glob(checkpoint_files.unrecorded("*"))):
            continue  # points that the next attempt records before it removes the folder
        report.mendable(
            f"{checkpoint_files.FOLDER}/{path.name}",
            "The checkpoint was not finished.",
            "it is removed",
            lambda path=path: shutil.rmtree(path),  # type: ignore[misc]
        )


def check_leftovers(folder: Path, report: RunReport) -> None:
    """Remove the temporary files and folders of processes that were killed."""
    folders = [folder, *checkpoint_files.folders(folder).values()]
    files = [file for each in folders for file in leftovers(each)]
    for path in [*files, *store_salvage.leftovers(folder)]:
        report.mendable(
            str(path.relative_to(folder)),
            "A process was killed while it wrote this file.",
            "it is removed",
            lambda path=path: _remove(path),  # type: ignore[misc]
        )


def is_folder(path: Path) -> bool:
    """Whether a run can lie in `path`: a folder of this user, and no link. Raises OSError."""
    status = path.lstat()
    return stat.S_ISDIR(status.st_mode) and ownership.is_owner(status)


def check_owner(folder: Path, file: str, report: RunReport, *, may_be_link: bool = False) -> None:
    """Check that no other user can change what is in `folder`. Raises OSError."""
    status = folder.stat() if may_be_link else folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or not ownership.is_own_folder(folder):
        what = "folder of another user"
        if not stat.S_ISDIR(status.st_mode):
            what = "link" if stat.S_ISLNK(status.st_mode) else "file or pipe, and no folder"
        advice = "Move it away if you do not know it: another user may have put code into it."
        report.unmendable(file, f"{folder} is a {what}.", advice)
    elif not ownership.is_private(status):
        report.mendable(
            file,
            "Other users of this machine can write to the folder.",
            "only you can open it",
            lambda: ownership.make_private_folder(folder),
        )


def _lost_checkpoint(folder: Path) -> str:
    """Return the name of the newest checkpoint that the run has saved if it is lost."""
    try:
        with open_store(folder) as store:
            status = stored_status(store)
    except (sqlite3.Error, OSError, ValueError):
        return ""  # the damage has its own finding
    if status is None or status.checkpoint_step < 0:
        return ""
    path = checkpoint_files.final_folder(folder, status.checkpoint_step)
    # It was told when it was moved, perhaps with all others.
    was_damaged = any(path.parent.glob(f"{path.name}.damaged-*")) or any(
        folder.glob(f"{checkpoint_files.FOLDER}.damaged-*")
    )
    return "" if path.exists() or was_damaged else path.name


def _restore(folder: Path, name: str, body: bytes, problem: str, report: RunReport) -> None:
    path = folder / name
    kept = f"; the damaged one is kept as {free_name(path).name}" if path.exists() else ""
    report.mendable(
        name,
        problem,
        f"it is restored from the store, as the last attempt began with it{kept}",
        lambda: _replace(folder, name, body),
    )


def _replace(folder: Path, name: str, body: bytes) -> None:
    path = folder / name
    for parent in path.relative_to(folder).parents:
        if (folder / parent).is_symlink():
            raise OSError(f"{folder / parent} is a link")
    create_folders(path.parent)
    temporary = store_salvage.temporary_folder(folder)
    try:
        new = temporary / path.name
        write_atomically(new, body, sync=True)  # first: the disk may be full
        if path.exists() or path.is_symlink():
            move_aside(path)
        new.replace(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    sync_to_disk(path.parent)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def _content(path: Path) -> bytes | None:
    try:
        return read_regular(path, LARGEST_RECIPE)
    except OSError:
        return None


def _is_script(folder: Path) -> bool:
    try:
        return read_spec(folder).is_script
    except UnreadableSpec:
        return False


def _is_imported(folder: Path) -> bool:
    try:
        return read_spec(folder).is_imported
    except UnreadableSpec:
        return False


def _recipe_problem(path: Path) -> str:
    if _is_script(path.parent):
        return "" if _content(path) else "The copy of the script is missing or empty."
    if _content(path) == b"":
        return "The copy of the recipe is empty."
    return read_recipe(path).problem


def _module_problem(path: Path) -> str:
    try:
        content = read_regular(path, LARGEST_RECIPE)
        ast.parse(content)
    except FileNotFoundError:
        return "The copy of a module of the recipe is missing."
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return f"The copy of a module of the recipe cannot be read: {error}."
    return "" if content else "The copy of a module of the recipe is empty."
