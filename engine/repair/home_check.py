"""Checks the files of the data folder: the list of runs, the queue, presets, what was left over."""

from __future__ import annotations

from pathlib import Path

import msgspec

from engine.repair import file_check
from engine.repair.report import Report, RunReport
from engine.runs import device_queue, run_index, trash
from engine.spec import presets
from engine.spec.presets import UnreadablePreset
from engine.system import paths
from engine.system.atomic_file import leftovers


def check_home(report: Report) -> None:
    """Check the data folder without its runs; mend it if `report` says so."""
    home, of_home = paths.home(), report.for_run("")
    if not home.is_dir():
        return
    of_home.progress("the data folder")
    for folder in (home, paths.runs_folder(), paths.trash_folder()):
        if folder.exists() and not folder.is_dir():
            advice = f"Move {folder} away: it must be a folder."
            of_home.unmendable(folder.name, "A file lies in the place of a folder.", advice)
        elif folder.is_dir():
            name = "" if folder == home else folder.name
            file_check.check_owner(folder, name, of_home, may_be_link=True)
    _check_queue(of_home)
    _check_index(of_home)
    _check_presets(of_home)
    _check_trash(of_home)
    _check_leftovers(home, of_home)


def _check_queue(report: RunReport) -> None:
    file = paths.home() / device_queue.FILE_NAME
    try:
        tickets = msgspec.json.decode(file.read_bytes(), type=list[device_queue.Ticket])
    except FileNotFoundError:
        return
    except OSError as error:
        advice = "It is perhaps not damaged: check the disk, then try again."
        report.unmendable(device_queue.FILE_NAME, f"The queue cannot be read: {error}.", advice)
        return
    except ValueError as error:
        problem = f"The queue cannot be read: {error}."
    else:
        lost = [each.run for each in tickets if not paths.is_run(each.run) and not each.is_alive]
        if not lost:
            return
        problem = f"The queue holds tickets of runs that do not exist: {', '.join(lost)}."
    remedy = "it is built anew from the active runs"
    report.mendable(device_queue.FILE_NAME, problem, remedy, device_queue.rebuild)


def _check_index(report: RunReport) -> None:
    if problem := run_index.cache_problem():
        report.mendable(
            run_index.FILE_NAME,
            f"The cached list of runs cannot be read: {problem}.",
            "it is built anew from the runs",
            run_index.rebuild_cache,
        )


def _check_presets(report: RunReport) -> None:
    for name in presets.names():
        file = presets.path_of(name)
        try:
            presets.read(file)
        except UnreadablePreset as error:
            advice = "Correct the file with an editor, or delete it."
            report.unmendable(f"{file.parent.name}/{file.name}", str(error), advice)


def _check_trash(report: RunReport) -> None:
    for run_id in trash.trashed():
        if paths.run_folder(run_id).exists():
            report.unmendable(
                f"{paths.trash_folder().name}/{run_id}",
                f"There is a run {run_id} too, so that the deleted one cannot be restored.",
                "Empty the trash, or rename one of the folders to a free number.",
            )


def _check_leftovers(home: Path, report: RunReport) -> None:
    for file in [*leftovers(home), *leftovers(presets.folder())]:
        report.mendable(
            str(file.relative_to(home)),
            "A process was killed while it wrote this file.",
            "it is removed",
            file.unlink,
        )
