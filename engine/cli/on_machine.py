"""`--on MACHINE`: a command is carried out by the Traindeck of another machine, over SSH.

The same command runs there, with its output, its terminal and its exit code here. A recipe goes
there before it, and an export comes back after it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from engine.cli.output import NoAnswer, Refused
from engine.cli.progress import progress_bar
from engine.remote import machines, requests, ssh
from engine.remote.downloads import DownloadFailed, download_export
from engine.remote.machines import CannotChange, RemoteMachine
from engine.remote.requests import Exported
from engine.remote.sent_code import UnfitCode, code_of
from engine.remote.session import RemoteError
from engine.remote.short_session import open_session
from engine.remote.ssh import Asking
from engine.spec import catalog

OF_SSH = 255
"""The exit code of `ssh` for a connection that could not be made, or broke."""

NOT_STARTED = (126, 127)
"""Exit codes of a shell that has not found the program, or may not run it."""

LONGEST_EXPORT = 3600.0
LONGEST_SENDING = 120.0
"""Seconds."""


def find_machine(name: str) -> RemoteMachine:
    """Return the machine `name`, or the one of this destination. Raises Refused."""
    try:
        return machines.machine(name)
    except CannotChange as error:
        raise Refused(str(error)) from None


def run_there(machine: RemoteMachine, arguments: Sequence[str]) -> int:
    """Run a command there, and return its exit code. Raises NoAnswer.

    If standard input and output are a terminal, it has one there: Ctrl-C reaches it. Otherwise
    Ctrl-C ends `ssh`, and what the command follows goes on.
    """
    has_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    words = ssh.command_on(machine, arguments, Asking.here(), has_terminal=has_terminal)
    try:
        code = subprocess.run(words, check=False).returncode
    except OSError as error:
        raise NoAnswer(f"`ssh` cannot be started on this machine: {error}.") from error
    if code == OF_SSH:
        raise NoAnswer(f"There is no connection to {machine.name} any more: see above.")
    if code in NOT_STARTED:
        raise NoAnswer(ssh.explain(machine, code, "", greeted=False).sentence)
    return code


def recipe_there(machine: RemoteMachine, recipe: str) -> str:
    """Return what `recipe` is called there: a file is sent, with the modules that it imports.

    Raises Refused, NoAnswer, UnknownName.
    """
    try:
        code = code_of(catalog.recipe(recipe))
    except (UnfitCode, OSError) as error:
        raise Refused(str(error)) from None
    if code is None:
        return recipe
    with _speaking(), open_session(machine) as (session, _):
        return session.call(requests.Keep(code), LONGEST_SENDING)


def export_from(
    machine: RemoteMachine, run_ids: Sequence[str], format: str, output: Path | None
) -> tuple[Path, Exported]:
    """Export runs of that machine to `output` here. Raises Refused, NoAnswer."""
    with _speaking(), open_session(machine) as (session, _):
        with progress_bar(f"exporting on {machine.name}") as show:
            exported = session.call(
                requests.Export(tuple(run_ids), format),
                LONGEST_EXPORT,
                progress=lambda done, total: show("", done, total),
            )
        target = (output or Path(exported.name)).expanduser().absolute()
        with progress_bar("downloading") as show:
            try:
                download_export(
                    session.begin, exported, target, lambda done, total: show("", done, total)
                )
            except DownloadFailed as error:
                raise Refused(str(error)) from error
        session.call(requests.Discard(exported.number))
    return target, exported


@contextmanager
def _speaking() -> Iterator[None]:
    try:
        yield
    except RemoteError as error:
        raise NoAnswer(str(error)) from error


def without_flag(arguments: Sequence[str], machine: str) -> list[str]:
    """Return `arguments` without `--on MACHINE`, if there is a `machine`. Raises Refused."""
    kept = list(arguments)
    if not machine:
        return kept
    end = kept.index("--") if "--" in kept else len(kept)
    for at in range(end):
        if kept[at] == f"--on={machine}":
            del kept[at]
            return kept
        if kept[at] == "--on" and kept[at + 1 : at + 2] == [machine]:
            del kept[at : at + 2]
            return kept
    raise Refused("Write `--on MACHINE` in full.")


def replaced(arguments: Sequence[str], flag: str, before: str, after: str) -> list[str]:
    """Return `arguments` with another value of `flag`; an empty flag stands for the value alone.

    Raises Refused.
    """
    changed = list(arguments)
    for at, text in enumerate(changed):
        is_value = not flag or (at > 0 and changed[at - 1] == flag)
        if text == before and is_value and at > 0:
            changed[at] = after
            return changed
        if flag and text == f"{flag}={before}":
            changed[at] = f"{flag}={after}"
            return changed
    raise Refused(f"Write `{flag} {before}` in full.".replace("  ", " "))
