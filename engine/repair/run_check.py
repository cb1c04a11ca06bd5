"""Checks everything in the folder of one run."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from engine.files.disk_errors import disk_problem
from engine.files.regular_file import read_regular
from engine.messages.status_question import ANSWER_SECONDS
from engine.processes import presence
from engine.repair import file_check, store_check, store_salvage
from engine.repair.report import Report, RunReport
from engine.runs import run_info
from engine.runs.checkpoints import checkpoint_files
from engine.runs.store.run_store import FILE_NAME as STORE
from engine.runs.store.store_backup import FILE_NAME as BACKUP
from engine.spec.recipe_copy import RECIPE
from engine.spec.spec_file import FILE_NAME as SPEC
from engine.spec.spec_file import SpecTooNew, UnreadableSpec, read_spec
from engine.system import paths

_LOCK = "supervisor.lock"


def check_run(run_id: str, report: Report) -> None:
    """Check the run `run_id`; mend it if `report` says so. It must exist."""
    folder, of_run = paths.run_folder(run_id), report.for_run(run_id)
    of_run.progress("its files")
    with contextlib.ExitStack() as stack:
        try:
            if not file_check.is_folder(folder):
                file_check.check_owner(folder, "", of_run)
                return
            reason = _active(folder) or _too_new(folder)
            if not reason and (report.repair or (folder / _LOCK).exists()):
                reason = stack.enter_context(_locked(folder, must=report.repair))
            if reason:
                of_run.left_alone("", reason)
                return
            _check(folder, of_run)
        except (OSError, sqlite3.Error) as error:
            advice = "It is perhaps not damaged: check the disk, then try again."
            of_run.unmendable("", f"The run cannot be checked: {error}.", advice)


def _check(folder: Path, report: RunReport) -> None:
    _ask_disk(folder)
    file_check.check_owner(folder, "", report)
    kept, are_all = file_check.kept_files(folder)
    file_check.check_settings(folder, kept, report)  # first: a store is built anew with them
    file_check.check_recipe(folder, kept, are_all, report)
    _check_store(folder, report)
    file_check.check_notes(folder, report)
    file_check.check_checkpoints(folder, report)
    file_check.check_leftovers(folder, report)


def _ask_disk(folder: Path) -> None:
    """Raise OSError if the disk does not give the files of the run: that is no damage of them."""
    for name in (SPEC, RECIPE, STORE):
        try:
            read_regular(folder / name, 0)
        except OSError as error:
            if disk_problem(error):
                raise


def _check_store(folder: Path, report: RunReport) -> None:
    report.progress("its store")
    if (folder / STORE).is_symlink() or (
        (folder / STORE).exists() and not (folder / STORE).is_file()
    ):
        advice = "Put the store itself there; what cannot be read there is not replaced."
        report.unmendable(STORE, "The store of the run is a link, or no file at all.", advice)
        return
    damage = store_check.damage_of(folder) if (folder / STORE).exists() else "it was lost"
    if not damage:
        store_check.check_contents(folder, report)
        store_check.check_backup(folder, report)
        return
    has_backup = (folder / BACKUP).is_file()
    if not (folder / STORE).exists():
        problem = "The store of the run is missing."
        if not checkpoint_files.checkpoints(folder) and not has_backup:
            advice = "It never began, or all of it is lost: delete it, or start it anew."
            report.unmendable(STORE, problem, advice)
            return
        remedy = "it is built anew from its backup" if has_backup else "the run has an empty one"
    else:
        problem = f"The store of the run is damaged: {damage}."
        aside = store_salvage.kept_name(folder).name
        rest = " and from its backup" if has_backup else ""
        remedy = f"it is built anew from all that can be read{rest}; the damaged one is kept as "
        remedy += aside
    mended = report.mendable(
        STORE, problem, remedy, lambda: store_salvage.rebuild_store(folder, damage).text
    )
    if mended:
        store_check.check_contents(folder, report)


def _active(folder: Path) -> str:
    """Return in a sentence that processes of the run are alive; empty if none is."""
    if presence.is_held(paths.workers_lock(folder)):
        return "The run is active: its workers have not ended."
    info = run_info.try_get_run(folder.name, patience=ANSWER_SECONDS)
    if info is None and not (folder / STORE).exists():
        return "The run has just been created."
    if isinstance(info, run_info.RunInfo):
        if not info.state.is_over:
            return f"The run is {info.state}: check it when it has ended."
        if not info.is_recorded:
            trouble = info.status.troubles[run_info.SUPERVISOR]
            return f"The run is {info.state}, but its supervisor has not ended. {trouble}"
    return ""  # the lock tells whether an unreadable run is active


def _too_new(folder: Path) -> str:
    try:
        read_spec(folder)
    except SpecTooNew as error:
        return str(error)
    except UnreadableSpec:
        pass
    return store_check.newer_format(folder)


@contextlib.contextmanager
def _locked(folder: Path, *, must: bool) -> Iterator[str]:
    """Hold the lock of the run's supervisor; yield in a sentence why not, or an empty text.

    `must`: also if the lock cannot be opened, because the disk is read-only.
    """
    lock = FileLock(folder / _LOCK, mode=0o600)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        yield "The run is active: its supervisor is alive."
        return
    except OSError:
        if must:
            raise
        yield ""
        return
    try:
        yield ""
    finally:
        lock.release()
