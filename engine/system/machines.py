"""`machines.toml` in the data folder: the other machines that the user has added.

Writers hold a lock and replace the file atomically, so that readers need no lock.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import tomli_w
from filelock import FileLock, Timeout

from engine.files.atomic_file import write_atomically
from engine.files.regular_file import LARGEST_TOML, read_regular, read_toml
from engine.system import paths
from engine.system.program import CONSOLE_SCRIPT, call

FILE_NAME = "machines.toml"
LOCK_NAME = "machines.lock"
LONGEST_NAME = 32
_LONGEST_TEXT = 500
_LOCK_SECONDS = 10.0
_ENTRY = re.compile(r"\[\[machine\]\][^\[]*|\{[^{}\n]*\}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)


class RemoteMachine(msgspec.Struct, frozen=True, kw_only=True):
    """A machine that was added."""

    name: str
    """What the user calls it: run 12 of `gpus` is `gpus:12`."""

    destination: str
    """What `ssh` understands: `user@host`, an alias of its configuration, `ssh://user@host:port`."""

    command: str = CONSOLE_SCRIPT
    """What starts Traindeck there, for the shell of that machine."""


class UnreadableMachines(OSError):
    """The list of machines is damaged; the text is a clause."""


class CannotChangeMachines(Exception):
    """What was asked of the list is not possible; the text is a sentence."""


class _Document(msgspec.Struct, frozen=True):
    machine: list[RemoteMachine] = []


def machines() -> list[RemoteMachine]:
    """Return the machines in the order in which they were added. Raises UnreadableMachines."""
    file = paths.home() / FILE_NAME
    try:
        listed = msgspec.convert(read_toml(file), _Document).machine
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise UnreadableMachines(
            f"the list of machines, {file}, cannot be read ({error}): mend or remove it"
        ) from error
    names = [each.name for each in listed]
    for each in listed:  # a person may have edited it
        problem = machine_problem(each)
        if names.count(each.name) > 1:
            problem = f"two machines have the name {each.name}"
        if problem:
            raise UnreadableMachines(
                f"the list of machines, {file}, cannot be used ({problem.rstrip('.')}): mend it"
            )
    return listed


def machine(name: str) -> RemoteMachine:
    """Return the machine `name`; without one, a machine of this destination.

    Raises CannotChangeMachines if it can be none; UnreadableMachines.
    """
    for each in machines():
        if each.name == name:
            return each
    if problem := destination_problem(name):
        raise CannotChangeMachines(problem)
    return RemoteMachine(name=name, destination=name)


def add(added: RemoteMachine) -> None:
    """Add a machine. Raises CannotChangeMachines for a name that is taken or invalid, OSError."""
    if problem := machine_problem(added):
        raise CannotChangeMachines(problem)

    def change(listed: list[RemoteMachine]) -> list[RemoteMachine]:
        if any(each.name == added.name for each in listed):
            raise CannotChangeMachines(
                f"There is a machine {added.name} already: choose another name, or remove that "
                f"one first with `{call(f'machines remove {added.name}')}`."
            )
        return [*listed, added]

    _change(change)


def remove(name: str) -> RemoteMachine:
    """Remove a machine from the list, and return it. Raises CannotChangeMachines, OSError."""
    removed: list[RemoteMachine] = []

    def change(listed: list[RemoteMachine]) -> list[RemoteMachine]:
        removed.extend(each for each in listed if each.name == name)
        if not removed:
            known = ", ".join(each.name for each in listed) or "none"
            raise CannotChangeMachines(f"There is no machine {name!r}; there are: {known}.")
        return [each for each in listed if each.name != name]

    _change(change)
    return removed[0]


def rebuild(damaged: Path) -> list[str]:
    """List those machines of a damaged list that can be read; return their names. Raises OSError.

    Each of its entries is read alone.
    """
    text = read_regular(damaged, LARGEST_TOML).decode(errors="replace")
    readable: dict[str, RemoteMachine] = {}
    for part in _ENTRY.findall(text):
        with contextlib.suppress(ValueError, RecursionError):
            table = part if part.startswith("[[") else f"machine = [{part}]"
            listed = msgspec.toml.decode(table, type=_Document).machine
            readable |= {each.name: each for each in listed if not machine_problem(each)}
    _change(lambda listed: [*readable.values()])
    return list(readable)


def run_reference(text: str) -> tuple[str, str]:
    """Return the name of the machine and the number of the run that `gpus:12` names.

    The name is empty for a run of this machine.
    """
    name, _, run_id = text.rpartition(":")
    return name, run_id


def machine_problem(machine: RemoteMachine) -> str:
    """Return why a machine cannot be added, in a sentence; empty: it can."""
    name, command = machine.name, machine.command
    if not _NAME.fullmatch(name) or len(name) > LONGEST_NAME or name.isdigit():
        return (
            f"{name!r} is no name for a machine: it has 1 to {LONGEST_NAME} letters, digits and "
            "`.`, `_`, `-`, begins with a letter or a digit, and is no number."
        )
    if problem := destination_problem(machine.destination):
        return problem
    if not command.strip() or not command.isprintable() or len(command) > _LONGEST_TEXT:
        return f"{command!r} is no command that starts Traindeck on {name}: it is one line."
    return ""


def destination_problem(destination: str) -> str:
    """Return why `ssh` must not get `destination`, in a sentence; empty: it may."""
    if not destination:
        return "A machine needs a destination for SSH, such as user@host."
    has_others = any(each.isspace() or not each.isprintable() for each in destination)
    if destination.startswith("-") or has_others or len(destination) > _LONGEST_TEXT:
        return (
            f"{destination!r} is no destination for SSH: say user@host, or an alias of its "
            "configuration, without spaces and not beginning with `-`."
        )
    return ""


def _change(change: Callable[[list[RemoteMachine]], list[RemoteMachine]]) -> None:
    with _lock():
        listed = change(machines())
        content = tomli_w.dumps({"machine": [msgspec.to_builtins(each) for each in listed]})
        write_atomically(paths.home() / FILE_NAME, content, mode=0o600, sync=True)


@contextmanager
def _lock() -> Iterator[None]:
    paths.prepare_home()
    try:
        with FileLock(paths.home() / LOCK_NAME, timeout=_LOCK_SECONDS, mode=0o600):
            yield
    except Timeout as error:
        raise OSError(f"another program changes the list of machines: {error}") from error
