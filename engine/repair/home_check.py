"""Checks the files of the data folder: the lists of runs, environments and machines, the queue,
presets, what was left over."""

from __future__ import annotations

import functools
import shlex
import shutil
from pathlib import Path

import msgspec

from engine.environments import creation, registry
from engine.environments.needs import interpreter_problem
from engine.environments.registry import RegistryTooNew, UnreadableRegistry
from engine.files.atomic_file import leftovers
from engine.files.regular_file import LARGEST_JSON, UnfitFile, read_regular
from engine.planning import kept
from engine.repair import file_check
from engine.repair.report import Report, RunReport, free_name, move_aside
from engine.runs import device_queue, run_index, trash
from engine.spec import presets
from engine.spec.presets import UnreadablePreset
from engine.system import machines, paths
from engine.system.machines import UnreadableMachines
from engine.system.program import call


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
    _check_environments(of_home)
    _check_machines(of_home)
    _check_planning(of_home)
    _check_trash(of_home)
    _check_leftovers(home, of_home)


def _check_queue(report: RunReport) -> None:
    file = paths.home() / device_queue.FILE_NAME
    try:
        content = read_regular(file, LARGEST_JSON)
        tickets = msgspec.json.decode(content, type=list[device_queue.Ticket])
    except FileNotFoundError:
        return
    except OSError as error:
        if isinstance(error, UnfitFile):
            _mend_queue(file, f"The queue cannot be read: {error}.", report)
            return
        advice = "It is perhaps not damaged: check the disk, then try again."
        report.unmendable(device_queue.FILE_NAME, f"The queue cannot be read: {error}.", advice)
        return
    except (ValueError, RecursionError) as error:
        _mend_queue(file, f"The queue cannot be read: {error}.", report)
    else:
        lost = [each.run for each in tickets if not paths.is_run(each.run) and not each.is_alive]
        if lost:
            report.mendable(
                device_queue.FILE_NAME,
                f"The queue holds tickets of runs that do not exist: {', '.join(lost)}.",
                "it is built anew from the active runs",
                device_queue.rebuild,
            )


def _mend_queue(file: Path, problem: str, report: RunReport) -> None:
    def mend() -> None:
        move_aside(file)
        device_queue.rebuild()

    remedy = "it is built anew from the active runs; the damaged one is kept as"
    report.mendable(file.name, problem, f"{remedy} {free_name(file).name}", mend)


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


def _check_environments(report: RunReport) -> None:
    file = paths.home() / registry.FILE_NAME
    try:
        listed = registry.environments()
    except RegistryTooNew as error:
        report.left_alone(file.name, f"{str(error)[:1].upper()}{str(error)[1:]}.")
        return
    except UnreadableRegistry as error:
        problem = f"The list of environments cannot be read: {error.__cause__}."
        if isinstance(error.__cause__, OSError) and not isinstance(error.__cause__, UnfitFile):
            advice = "It is perhaps not damaged: check the disk, then try again."
            report.unmendable(file.name, problem, advice)
            return

        def mend() -> str:
            move_aside(file)
            names = ", ".join(registry.rebuild()) or "none"
            add = call("env add NAME --python PATH")
            return f"those that were made here are listed again: {names}; `{add}` adds others"

        remedy = f"it begins anew; the damaged one is kept as {free_name(file).name}"
        report.mendable(file.name, problem, remedy, mend)
        return
    for each in listed:
        if each.is_ours and (problem := interpreter_problem(each.python)):
            again = call(f"env remove {shlex.quote(each.name)}")
            report.unmendable(file.name, problem, f"`{again}` takes {each.name!r} off the list.")
    for folder in creation.leftovers():
        report.mendable(
            str(folder.relative_to(paths.home())),
            "A process was killed while it made this environment.",
            "it is removed",
            functools.partial(shutil.rmtree, folder),
        )


def _check_machines(report: RunReport) -> None:
    file = paths.home() / machines.FILE_NAME
    try:
        machines.machines()
        return
    except UnreadableMachines as error:
        cause = error.__cause__
        problem = f"{str(error)[:1].upper()}{str(error)[1:].rpartition(':')[0]}."
    if isinstance(cause, OSError) and not isinstance(cause, UnfitFile):
        advice = "It is perhaps not damaged: check the disk, then try again."
        report.unmendable(file.name, problem, advice)
        return

    def mend() -> str:
        names = ", ".join(machines.rebuild(move_aside(file))) or "none"
        add = call("machines add NAME DESTINATION")
        return f"the machines that could be read are listed again: {names}; `{add}` adds others"

    remedy = f"it begins anew; the damaged one is kept as {free_name(file).name}"
    report.mendable(file.name, problem, remedy, mend)


def _check_planning(report: RunReport) -> None:
    for number in kept.numbers():
        try:
            kept.read(number)
        except kept.NoSuchResult as error:
            advice = "Delete the file: what it says can be measured again."
            report.unmendable(f"{kept.FOLDER}/{number}.json", str(error), advice)


def _check_trash(report: RunReport) -> None:
    for run_id in trash.trashed():
        if paths.run_folder(run_id).exists():
            report.unmendable(
                f"{paths.trash_folder().name}/{run_id}",
                f"There is a run {run_id} too, so that the deleted one cannot be restored.",
                "Empty the trash, or rename one of the folders to a free number.",
            )


def _check_leftovers(home: Path, report: RunReport) -> None:
    folders = home, presets.folder(), home / kept.FOLDER
    for file in [each for folder in folders for each in leftovers(folder)]:
        report.mendable(
            str(file.relative_to(home)),
            "A process was killed while it wrote this file.",
            "it is removed",
            file.unlink,
        )
