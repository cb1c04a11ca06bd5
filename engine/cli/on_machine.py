"""`--on MACHINE`: a command is carried out by the Traindeck of another machine, over SSH.

The same command runs there, with its output, its terminal and its exit code here. What goes there
before, and comes back after it, is in `engine.cli.transfers`.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence

from engine.cli.output import Interrupted, NoAnswer, Refused
from engine.remote import machines, ssh
from engine.remote.machines import CannotChange, RemoteMachine, run_reference
from engine.remote.ssh import Asking
from engine.system.program import call, program_words

OF_SSH = 255
"""The exit code of `ssh` for a connection that could not be made, or broke."""

NOT_STARTED = (126, 127)
"""Exit codes of a shell that has not found the program, or may not run it."""


def find_machine(name: str) -> RemoteMachine:
    """Return the machine `name`, or the one of this destination. Raises Refused."""
    try:
        return machines.machine(name)
    except CannotChange as error:
        raise Refused(str(error)) from None


def run_there(
    machine: RemoteMachine,
    arguments: Sequence[str],
    goes_on: str = "",
    *,
    sent: tuple[str, str] | None = None,
    while_connected: bool = False,
) -> int:
    """Run a command there, and return its exit code. Raises NoAnswer, Interrupted.

    `goes_on`: what stays there when the connection ends, in a sentence. If standard input and
    output are a terminal, it has one there: Ctrl-C reaches it. Otherwise Ctrl-C ends `ssh`, and
    with `while_connected` also the command. `sent`: a recipe of here, and its path there.
    """
    has_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    command = ["--asked-from", " ".join(program_words()), machine.name]
    command += ["--sent", *sent] if sent else []
    command += arguments
    goes_on = f" {goes_on}".rstrip()
    words = ssh.command_on(machine, command, Asking.here(), has_terminal=has_terminal)
    try:
        # Without a terminal no command reads it, and a loop of a shell may need what is in it.
        given = None if has_terminal else subprocess.DEVNULL
        if while_connected and not has_terminal:
            given = subprocess.PIPE  # when it closes, the command there ends
        with subprocess.Popen(words, stdin=given) as process:
            try:
                code = process.wait()
            except BaseException:
                process.kill()
                raise
    except OSError as error:
        raise NoAnswer(f"`ssh` cannot be started on this machine: {error}.") from error
    except KeyboardInterrupt:
        if has_terminal:
            raise  # it came before the command there had the terminal
        raise Interrupted(f"The connection to {machine.name} was ended.{goes_on}") from None
    if code == OF_SSH and has_terminal:  # `ssh` says it also of a command that a signal has ended
        text = (
            f"The command on {machine.name} was ended by a signal, such as Ctrl-C, or there is no "
            "connection: see above."
        )
        raise NoAnswer(f"{text}{goes_on}")
    if code == OF_SSH:
        raise NoAnswer(f"There is no connection to {machine.name}: see above.{goes_on}")
    if code < 0:
        name = signal.Signals(-code).name
        raise NoAnswer(f"`ssh` was ended here by {name}.{goes_on}")
    if code in NOT_STARTED:
        raise NoAnswer(ssh.explain(machine, code, "", greeted=False).sentence)
    return code


def without_value(arguments: Sequence[str], flags: Sequence[str], value: str) -> list[str]:
    """Return `arguments` without one of `flags` and its value. Raises Refused."""
    kept = list(arguments)
    for at, text in enumerate(kept):
        if text in flags and kept[at + 1 : at + 2] == [value]:
            return [*kept[:at], *kept[at + 2 :]]
        if text in [f"{flag}={value}" for flag in flags] or text == f"-o{value}":
            return [*kept[:at], *kept[at + 1 :]]
    raise Refused(f"Write `{flags[-1]} {value}` in full.")


def without_flag(arguments: Sequence[str], machine: str) -> list[str]:
    """Return `arguments` without `--on MACHINE`, if there is a `machine`. Raises Refused."""
    kept = list(arguments)
    if not machine:
        return kept
    end = kept.index("--") if "--" in kept else len(kept)
    return [*without_value(kept[:end], ("--on",), machine), *kept[end:]]


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


def named_machine(
    machine: str, named: Sequence[str], arguments: Sequence[str]
) -> tuple[str, list[str]]:
    """Return the machine that is meant, and the arguments without it.

    `machine`: that of `--on`; `named`: the runs, of which each may be such as `gpus:12`. Raises
    Refused.
    """
    rest = without_flag(arguments, machine)
    for text in named:
        name, run_id = run_reference(text)
        if ":" in text and not (name and run_id):
            name = name or "MACHINE"
            raise Refused(
                f"{text!r} names no run: say the machine and the number, such as {name}:12. "
                f"`{call(f'runs --on {name}')}` lists its runs."
            )
        if machine and name not in ("", machine):
            raise Refused(f"{text} is a run of {name}: leave out `--on {machine}`.")
        rest = replaced(rest, "", text, run_id) if name else rest
    names = {machine} if machine else {run_reference(text)[0] for text in named if text}
    if len(names) > 1:
        listed = ", ".join(sorted(name or "this machine" for name in names))
        raise Refused(f"These are runs of several machines ({listed}): call it once for each.")
    return names.pop(), rest
