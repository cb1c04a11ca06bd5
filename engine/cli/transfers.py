"""What goes to another machine for a command there, and what comes back from it.

Code and files go there before it, or with it; exports and reports come back.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from engine.cli.output import NoAnswer, Refused, err
from engine.cli.progress import progress_bar
from engine.imports.csv_tables import ColumnNames
from engine.imports.found_run import CannotImport
from engine.imports.import_runs import files_of
from engine.remote import requests, uploads
from engine.remote.downloads import DownloadFailed, download_checkpoint, download_export
from engine.remote.machines import RemoteMachine
from engine.remote.requests import Code, Exported, Hello, ImportedRuns, ImportSource
from engine.remote.sent_code import UnfitCode, code_of, is_plain, script_code
from engine.remote.session import NotConnected, RefusedThere, RemoteError, Session
from engine.remote.short_session import open_session
from engine.remote.uploads import Outgoing, UploadFailed
from engine.runs.checkpoint_files import CheckpointInfo
from engine.scripts.command import script_of
from engine.spec import catalog
from engine.spec.recipe_file import no_recipe
from engine.system.program import call

LONGEST_EXPORT = 3600.0
LONGEST_IMPORT = 3600.0
LONGEST_SENDING = 120.0
"""Seconds."""

_FIRST_THAT_NAMES = 2
"""The minor version of the protocol from which on a command takes `--sent`."""

_MOST_NAMES = 5
"""Modules that are named."""


def recipe_there(machine: RemoteMachine, recipe: str) -> tuple[str, bool]:
    """Return what `recipe` is called there: a file is sent, with the modules that it imports. And
    whether the Traindeck there can be told what it is called here (`--sent`).

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
    return (recipe, False) if code is None else _send_code(machine, code)


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
    file = PurePosixPath(_send_code(machine, code)[0])
    return str(file.parent), [*command[:at], file.name, *command[at + 1 :]]


def _send_code(machine: RemoteMachine, code: Code) -> tuple[str, bool]:
    """Send it, say so, and return what `recipe_there` does. Raises NoAnswer."""
    with _connected(machine, "Nothing was started.") as link:
        path = link.session.call(requests.Keep(code), LONGEST_SENDING)
        can_name = link.hello.minor >= _FIRST_THAT_NAMES
    names = list(code.modules)
    more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
    modules = f" with {', '.join(names[:_MOST_NAMES])}{more}, which it imports" if names else ""
    err().print(
        f"Sent to {machine.name}: {code.name}{modules}. No data were sent: what it reads lies "
        "there.",
        soft_wrap=True,
    )
    return path, can_name


def export_from(
    machine: RemoteMachine, run_ids: Sequence[str], format: str, output: Path | None
) -> tuple[Path, Exported]:
    """Export runs of that machine to `output` here. Raises Refused, NoAnswer."""
    if output is not None:
        check_target(output)
    with _connected(machine, "Nothing was exported.") as link:
        with progress_bar(f"exporting on {machine.name}") as show:
            exported = link.session.call(
                requests.Export(tuple(run_ids), format),
                LONGEST_EXPORT,
                progress=lambda done, total: show("", done, total),
            )
        if not is_plain(exported.name) or exported.name != Path(exported.name).name.lstrip("."):
            raise Refused(f"{machine.name} proposes {exported.name!r}, which is no name of a file.")
        target = (output or Path(exported.name)).expanduser().absolute()
        with _downloading() as show:
            download_export(link.session.begin, exported, target, show)
    return target, exported


def checkpoints_of(machine: RemoteMachine, run_id: str) -> list[CheckpointInfo]:
    """Return the checkpoints of a run of that machine, oldest first. Raises Refused, NoAnswer."""
    with _connected(machine, "") as link:
        found = link.session.call(requests.Checkpoints(run_id))
    return [CheckpointInfo(Path(each.name), each.manifest) for each in found]


def checkpoint_from(
    machine: RemoteMachine,
    run_id: str,
    choose: Callable[[Sequence[CheckpointInfo]], tuple[CheckpointInfo, Path]],
) -> tuple[CheckpointInfo, Path]:
    """Copy the checkpoint that `choose` returns to the new folder here that it returns with it.

    Raises Refused, NoAnswer, and what `choose` raises.
    """
    with _connected(machine, "Nothing was kept of the checkpoint.") as link:
        found = {each.name: each for each in link.session.call(requests.Checkpoints(run_id))}
        chosen, target = choose(
            [CheckpointInfo(Path(each.name), each.manifest) for each in found.values()]
        )
        with _downloading() as show:
            offered = found[chosen.folder.name]
            download_checkpoint(link.session.begin, run_id, offered, target, show)
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
    with _connected(machine, "Nothing was imported.") as link:
        try:
            with progress_bar(f"sending to {machine.name}") as show:
                folder = uploads.send(
                    link.session, outgoing, lambda done, total: show("", done, total)
                )
        except UploadFailed as error:
            raise Refused(str(error)) from None
        with progress_bar(f"importing on {machine.name}") as show:
            link.if_lost = unknown
            imported = link.session.call(
                requests.Import(folder.number, named, columns),
                LONGEST_IMPORT,
                progress=lambda done, total: show("", done, total),
            )
    return imported


@contextmanager
def report_from(machine: RemoteMachine, target: Path) -> Iterator[str]:
    """Give the path of a file there, which comes to the new file `target` when the body is done.

    Nothing comes if the body has not written it. Raises Refused, NoAnswer.
    """
    check_target(target)
    with _connected(machine, "There is no report.") as link:
        folder = link.session.call(requests.MakeFolder())
        yield str(PurePosixPath(folder.path) / target.name)
        files = link.session.call(requests.Offered(folder.number))
        if files:
            exported = Exported(folder.number, target.name, True, files)
            with _downloading() as show:
                download_export(link.session.begin, exported, target, show)


def check_target(target: Path) -> None:
    """Refuse a new file or folder that could not be written later. Raises Refused."""
    target = target.expanduser().absolute()
    if os.path.lexists(target):
        raise Refused(f"{target} exists already: choose another name, or remove it.")
    if not os.access(target.parent, os.W_OK):
        raise Refused(f"{target} cannot be written: choose another folder.")


@contextmanager
def _downloading() -> Iterator[Callable[[int, int], None]]:
    """Show the progress of a download. Raises Refused."""
    with progress_bar("downloading") as show:
        try:
            yield lambda done, total: show("", done, total)
        except DownloadFailed as error:
            raise Refused(str(error)) from error


class _Link:
    """A session of one errand."""

    def __init__(self, session: Session, hello: Hello, if_lost: str) -> None:
        self.session = session
        self.hello = hello
        self.if_lost = if_lost
        """What it means now that the connection broke, in a sentence."""


@contextmanager
def _connected(machine: RemoteMachine, if_lost: str) -> Iterator[_Link]:
    """Connect for an errand. Raises Refused, NoAnswer."""
    found: _Link | None = None
    try:
        with open_session(machine) as (session, hello):
            found = _Link(session, hello, if_lost)
            yield found
    except RefusedThere as error:
        raise Refused(f"{machine.name}: {error}") from error
    except NotConnected as error:
        raise NoAnswer(f"{error} {found.if_lost if found else ''}".rstrip()) from error
    except RemoteError as error:
        raise NoAnswer(str(error)) from error
