"""What goes to another machine for a command there, and what comes back from it.

Code and files go there before it, or with it; exports and reports come back.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from threading import Event

from engine.cli.output import NoAnswer, Refused, err
from engine.cli.progress import progress_bar
from engine.client import NoSuchRun
from engine.exports.export_runs import Format
from engine.imports.csv_tables import ColumnNames
from engine.imports.found_run import CannotImport
from engine.imports.import_runs import files_of
from engine.interface import uploads, values
from engine.interface.engine import Engine
from engine.interface.failures import known_exceptions
from engine.interface.local_engine import LocalEngine
from engine.interface.sent_code import UnfitCode, code_of, script_code
from engine.interface.transfers import DownloadFailed, copy_checkpoint, fetch_export
from engine.interface.uploads import Outgoing, UploadFailed
from engine.interface.values import Code, Exported, ImportedRuns, ImportSource
from engine.remote.machines import RemoteMachine
from engine.remote.short_session import open_session
from engine.runs.checkpoint_files import CheckpointInfo
from engine.scripts.command import script_of
from engine.spec import catalog
from engine.spec.recipe_file import no_recipe
from engine.system.program import call

_MOST_NAMES = 5
"""Modules that are named."""


def recipe_there(machine: RemoteMachine, recipe: str) -> str:
    """Return what `recipe` is called there: a file is sent, with the modules that it imports.

    Raises Refused, NoAnswer, UnknownName.
    """
    info = catalog.recipe(recipe)
    if info.problem:
        raise Refused(info.problem)
    if problem := no_recipe(info):
        raise Refused(problem.replace("run -- ", f"run --on {machine.name} -- "))
    try:
        code = code_of(info)
    except OSError as error:
        raise Refused(str(error)) from None
    return recipe if code is None else _send_code(machine, code)


def script_there(machine: RemoteMachine, command: Sequence[str]) -> tuple[str, list[str]]:
    """Return the folder there in which `command` runs, and its words there.

    If it starts a script of this machine, that is sent, with the modules that it imports; otherwise
    the folder is empty, and the command unchanged. Raises Refused, NoAnswer.
    """
    here = Path.cwd()
    script = script_of(command, here)
    if script.suffix != ".py" or not script.is_file():  # a program, which may be there too
        return "", list(command)
    try:
        code, at = script_code(command, here)
    except UnfitCode as error:
        raise Refused(f"{error} `--folder FOLDER` names it.") from None
    except OSError as error:
        raise Refused(f"{script} cannot be read: {error}.") from None
    file = PurePosixPath(_send_code(machine, code))
    return str(file.parent), [*command[:at], file.name, *command[at + 1 :]]


def _send_code(machine: RemoteMachine, code: Code) -> str:
    """Send it, say so, and return the path of its file there. Raises NoAnswer."""
    with engine_at(machine, "Nothing was started.") as engine:
        path = engine.keep_code(code)
    names = list(code.modules)
    more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
    modules = f" with {', '.join(names[:_MOST_NAMES])}{more}, which it imports" if names else ""
    err().print(
        f"Sent to {machine.name}: {code.name}{modules}. No data were sent: what it reads lies "
        "there.",
        soft_wrap=True,
    )
    return path


def export_from(
    machine: RemoteMachine, run_ids: Sequence[str], format: str, output: Path | None
) -> tuple[Path, Exported]:
    """Export runs of that machine to `output` here. Raises Refused, NoAnswer."""
    if output is not None:
        check_target(output)
    with engine_at(machine, "Nothing was exported.") as engine:
        with progress_bar(f"exporting on {machine.name}") as show:
            exported = engine.export_runs(
                tuple(run_ids), format, lambda done, total: show("", done, total), Event()
            )
        kind = Format(format)
        stem = run_ids[0] if len(run_ids) == 1 else f"{len(run_ids)}-runs"
        end = ".html" if kind.is_file else f"-{kind}"
        proposed = Path(f"traindeck-{machine.name}-{stem}{end}")
        target = (output or proposed).expanduser().absolute()
        with _downloading() as progress:
            fetch_export(engine, exported, target, progress, is_file=kind.is_file)
    return target, exported


def list_checkpoints(machine: RemoteMachine | None, run_id: str) -> list[CheckpointInfo]:
    """Return the checkpoints of a run, oldest first; `machine`: where it is, if not here.

    Raises NoSuchRun, Refused, NoAnswer.
    """
    with engine_at(machine, "") as engine:
        return engine.list_checkpoints(run_id)


def fetch_checkpoint(
    machine: RemoteMachine | None,
    run_id: str,
    choose: Callable[[Sequence[CheckpointInfo]], tuple[CheckpointInfo, Path]],
) -> tuple[CheckpointInfo, Path]:
    """Copy the checkpoint that `choose` returns to the new folder here that it returns with it.

    Raises NoSuchRun, Refused, NoAnswer, and what `choose` raises.
    """
    with engine_at(machine, "Nothing was kept of the checkpoint.") as engine:
        chosen, target = choose(engine.list_checkpoints(run_id))
        with _downloading("downloading" if machine else "copying") as progress:
            copy_checkpoint(engine, run_id, chosen.folder.name, target, progress)
    return chosen, target


def import_to(
    machine: RemoteMachine, sources: Sequence[Path], columns: ColumnNames
) -> ImportedRuns:
    """Send the files of `sources`, and make runs of them there. Raises Refused, NoAnswer."""
    outgoing: list[Outgoing] = []
    named: list[ImportSource] = []
    try:
        for number, source in enumerate(map(Path.absolute, sources)):
            root = source if source.is_dir() else source.parent
            place = f"{number}/{root.name or 'files'}"  # runs are named after folders and files
            outgoing += [
                Outgoing(file, f"{place}/{file.relative_to(root).as_posix()}")
                for file in files_of(source)
            ]
            name = place if source.is_dir() else f"{place}/{source.name}"
            named.append(ImportSource(name, f"{platform.node()}:{source}"))
    except CannotImport as error:
        raise Refused(str(error)) from None
    unknown = (
        "Whether the files were imported is not known: "
        f"`{call(f'runs --on {machine.name}')}` lists the runs there."
    )
    with engine_at(machine, "Nothing was imported.") as engine:
        try:
            with progress_bar(f"sending to {machine.name}") as show:
                folder = uploads.send(engine, outgoing, lambda done, total: show("", done, total))
        except UploadFailed as error:
            raise Refused(str(error)) from None
        try:
            with progress_bar(f"importing on {machine.name}") as show:
                return engine.import_runs(
                    folder.number, named, columns, lambda done, total: show("", done, total)
                )
        except values.NotConnected as error:
            raise NoAnswer(f"{error} {unknown}") from error


@contextmanager
def report_from(machine: RemoteMachine, target: Path) -> Iterator[str]:
    """Give the path of a file there, which comes to the new file `target` when the body is done.

    Nothing comes if the body has not written it. Raises Refused, NoAnswer.
    """
    check_target(target)
    with engine_at(machine, "There is no report.") as engine:
        folder = engine.make_folder()
        yield str(PurePosixPath(folder.path) / target.name)
        if files := engine.list_folder(folder.number):
            exported = Exported(folder.number, files)
            with _downloading() as progress:
                fetch_export(engine, exported, target, progress, is_file=True)


def check_target(target: Path) -> None:
    """Refuse a new file or folder that could not be written later. Raises Refused."""
    target = target.expanduser().absolute()
    if os.path.lexists(target):
        raise Refused(f"{target} exists already: choose another name, or remove it.")
    if not os.access(target.parent, os.W_OK):
        raise Refused(f"{target} cannot be written: choose another folder.")


@contextmanager
def _downloading(what: str = "downloading") -> Iterator[Callable[[int, int], None]]:
    """Show the progress of a download. Raises Refused."""
    with progress_bar(what) as show:
        try:
            yield lambda done, total: show("", done, total)
        except DownloadFailed as error:
            raise Refused(str(error)) from error


@contextmanager
def engine_at(machine: RemoteMachine | None, if_lost: str) -> Iterator[Engine]:
    """Give the engine of `machine`, to which there is a connection meanwhile; None: of this one.

    `if_lost`: what it means that the connection broke, in a sentence. Raises Refused, NoAnswer.
    """
    if machine is None:
        yield LocalEngine()
        return
    try:
        with open_session(machine) as (engine, _):
            yield engine
    except values.NotConnected as error:
        raise NoAnswer(f"{error} {if_lost}".rstrip()) from error
    except NoSuchRun:
        raise
    except tuple(known_exceptions().values()) as error:
        raise Refused(str(error)) from error
    except values.NoAnswer as error:
        raise NoAnswer(str(error)) from error
