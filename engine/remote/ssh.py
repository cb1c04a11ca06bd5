"""The system's `ssh`: how it is called, and what its failures mean, in sentences."""

from __future__ import annotations

import os
import re
import shlex
import sys
from enum import Enum
from typing import NamedTuple

from engine.remote.frames import MAJOR, Hello
from engine.remote.session import Broken, OtherProtocol
from engine.system.machines import RemoteMachine
from engine.system.program import CONSOLE_SCRIPT, call, version

PROGRAM_VARIABLE = "TRAINDECK_SSH"
"""An environment variable: another `ssh`, or options for it, such as `ssh -F FILE`."""

CONNECT_SECONDS = 10

_OPTIONS = (
    f"ConnectTimeout={CONNECT_SECONDS}",
    "ServerAliveInterval=5",
    "ServerAliveCountMax=3",
    # What a user's configuration may add for terminals is of no use here, and may hinder.
    "ClearAllForwardings=yes",
    "ForwardAgent=no",
    "ForwardX11=no",
    "RemoteCommand=none",
    "ControlMaster=no",  # one that is there is used; its process would outlive this one
)
_SSH_FAILED = 255
"""The exit code of `ssh` for errors of its own; every other one is that of the remote command."""

_NOT_EXECUTABLE, _NOT_FOUND = 126, 127
"""Exit codes of a shell."""


class Failure(NamedTuple):
    """Why there is no connection."""

    sentence: str
    is_lasting: bool = False
    """Whether another try is of no use until the user has done something."""

    wants_answer: bool = False
    """Whether a password or the like might help, for which no person was asked."""


class Asking(Enum):
    """Whom `ssh` may ask, such as for a password."""

    NOBODY = ("BatchMode=yes", "StrictHostKeyChecking=yes")
    WINDOW = ("NumberOfPasswordPrompts=1", "StrictHostKeyChecking=yes")
    """`engine.remote.askpass`. It accepts no host key, not even a new one."""

    TERMINAL = ("StrictHostKeyChecking=ask",)
    """The terminal of this process, where it also shows new host keys."""

    @classmethod
    def here(cls) -> Asking:
        """Return TERMINAL if a person sits at the standard input."""
        return cls.TERMINAL if sys.stdin.isatty() else cls.NOBODY


def serve_command(machine: RemoteMachine, asking: Asking = Asking.NOBODY) -> list[str]:
    """Return the words that start the remote side of a connection; NONCE stands for its word."""
    # Some failures are told at this level only.
    options = (*_OPTIONS, "LogLevel=INFO", *asking.value)
    chosen = [word for option in options for word in ("-o", option)]
    command = f"{machine.command} serve NONCE"
    return [*_program(), "-T", *chosen, machine.destination, "--", command]


def _program() -> list[str]:
    named = os.environ.get(PROGRAM_VARIABLE, "").strip() or "ssh"
    try:
        return shlex.split(named)
    except ValueError:  # a quotation is not closed: the start of a program of this name fails
        return [named]


def explain(
    machine: RemoteMachine, exit_code: int | None, errors: str, *, why: str = "", greeted: bool
) -> Failure:
    """Return why a connection could not be made, or has ended.

    `exit_code`: of `ssh`; None: it was ended here, because of `why`. `errors`: its standard error.
    `greeted`: whether the Traindeck there has spoken.
    """
    name = machine.name
    if _DISK_FULL.search(errors):
        return Failure(f"The disk of {name} is full: free some space there. {_last_line(errors)}")
    if exit_code is None:
        text = f"The connection to {name} was given up: {why}."
        if greeted or not errors.strip():
            return Failure(text)
        return Failure(f"{text} A login there asks or waits; it said last: {_last_line(errors)}")
    if exit_code < 0 and not errors.strip():
        return Failure(
            f"`ssh` was ended on this machine (signal {-exit_code}), and with it the connection to "
            f"{name}."
        )
    if exit_code == _SSH_FAILED or exit_code < 0:
        return _of_ssh(machine, errors, greeted=greeted)
    if greeted:
        said = f" It said: {_last_line(errors)}" if errors.strip() else ""
        return Failure(f"The Traindeck on {name} has ended (exit code {exit_code}).{said}")
    is_missing = "Command not found." in errors  # csh, which exits with 1
    if is_missing or exit_code in (_NOT_FOUND, _NOT_EXECUTABLE):
        return Failure(_not_found(machine), is_lasting=True)
    if "There is no command" in errors:
        text = f"The Traindeck on {name} is too old to be watched from here: update it there."
        return Failure(text, is_lasting=True)
    said = _last_line(errors) or f"exit code {exit_code}"
    if exit_code == 0:
        return Failure(
            f"A login on {name} ends without Traindeck's first word: something that it runs, such "
            f"as a `.bashrc`, swallows the output or ends the shell, or `{machine.command}` is "
            f"another program. It said: {said}",
            is_lasting=True,
        )
    return Failure(
        f"`{machine.command}` on {name} does not start Traindeck: {said}", is_lasting=True
    )


def failure_of(machine: RemoteMachine, error: Broken | OtherProtocol) -> Failure:
    """Return why a session with `machine` has ended."""
    if isinstance(error, OtherProtocol):
        return explain_protocol(machine, error.hello)
    if error.is_garbled:
        return explain_noise(machine, str(error))
    if error.is_too_much:
        return explain_excess(machine, str(error))
    errors = error.errors or error.noise
    return explain(machine, error.exit_code, errors, why=str(error), greeted=error.greeted)


def explain_protocol(machine: RemoteMachine, hello: Hello) -> Failure:
    """Return that the Traindeck there speaks another protocol."""
    older = machine.name if hello.major < MAJOR else "this machine"
    return Failure(
        f"The Traindeck on {machine.name} ({hello.version}) and this one ({version()}) speak "
        f"different protocols ({hello.major} and {MAJOR}): update the one on {older}.",
        is_lasting=True,
    )


def explain_noise(machine: RemoteMachine, why: str) -> Failure:
    """Return that something else than Traindeck answers there."""
    return Failure(
        f"What {machine.name} sends is not Traindeck's: {why}. Something that a login there runs, "
        f"such as a `.bashrc`, prints it; or `{machine.command}` is another program.",
        is_lasting=True,
    )


def explain_excess(machine: RemoteMachine, why: str) -> Failure:
    """Return that more comes from there than is taken; `why` names the limit."""
    return Failure(
        f"The connection to {machine.name} was ended here: {why}. Update Traindeck there and here; "
        "if that does not help, something is wrong with that machine.",
        is_lasting=True,
    )


def explain_silence(machine: RemoteMachine, seconds: float, said: str) -> Failure:
    """Return that Traindeck there has not spoken for so long; `said`: what came instead."""
    text = f"{machine.name} has not answered within {seconds:g} s"
    if not said.strip():
        return Failure(f"{text}: a login there waits, or swallows the output.")
    return Failure(
        f"{text}: a login there asks or waits, which something that it runs does, such as a "
        f"`.bashrc`. It said last: {_last_line(said)}"
    )


class _Known(NamedTuple):
    pattern: re.Pattern[str]
    sentence: str
    """With {name}, {destination} and {said}: the line that was found."""

    is_lasting: bool
    wants_answer: bool = False


def _known(
    pattern: str, sentence: str, *, lasting: bool = False, wants_answer: bool = False
) -> _Known:
    compiled = re.compile(pattern, re.IGNORECASE | re.MULTILINE)
    return _Known(compiled, sentence, lasting, wants_answer)


_DISK_FULL = re.compile("No space left on device|Disk quota exceeded", re.IGNORECASE)

_CLOSED = "kex_exchange_identification"
"""How `ssh` begins a line of its own about a connection that ended before it began."""

_FAILURES = (
    _known(
        "REMOTE HOST IDENTIFICATION HAS CHANGED|host key for .* has changed|revoked host key",
        "The host key of {name} is not the one that is known: it was installed anew, or another "
        "machine answers in its place. Nothing was sent to it. Ask who runs it; if the new key is "
        "right, remove the old one with `ssh-keygen -R HOST` and connect once with "
        "`ssh {destination}` in a terminal.",
        lasting=True,
    ),
    _known(
        "host key is known for|Host key verification failed",
        "The host key of {name} is not known yet: connect once with `ssh {destination}` in a "
        "terminal, and compare the fingerprint that it shows before you accept it.",
        lasting=True,
    ),
    _known(
        "Permission denied|Too many authentication failures|No more authentication methods",
        "{name} does not let you in: {said} Check the user and the key with "
        "`ssh {destination}` in a terminal.",
        lasting=True,
        wants_answer=True,
    ),
    _known(
        rf"^(?!{_CLOSED})[^\n]+(?=\n({_CLOSED}[^\n]*\n)?Connection closed by UNKNOWN port)",
        "The way to {name}, a ProxyCommand or ProxyJump in the configuration of SSH, has failed: "
        "{said}",
    ),
    _known(
        "Connection closed by UNKNOWN port",
        "The way to {name}, a ProxyCommand or ProxyJump in the configuration of SSH, has ended "
        "without a word.",
    ),
    _known(
        "Could not resolve hostname|Name or service not known|nodename nor servname",
        "The host of {name} is not known to the network: check `{destination}`, or whether this "
        "machine is online.",
    ),
    _known(
        "Connection refused",
        "{name} refuses SSH connections: no SSH server runs there, or it listens at another port.",
    ),
    _known(
        "timed out|Timeout, server",
        "{name} does not answer: it is switched off, or the network between is broken.",
    ),
    _known(
        "No route to host|Network is unreachable|Network is down",
        "The network does not reach {name}: this machine is offline, or a VPN is missing.",
    ),
    _known(
        "Bad configuration option|Bad owner or permissions|terminating, .* bad configuration",
        "The configuration of SSH on this machine cannot be used: {said}",
        lasting=True,
    ),
    _known(
        f"{_CLOSED}|Connection (reset|closed)|Broken pipe|closed by remote host",
        "{name} has closed the connection.",
    ),
)


def _of_ssh(machine: RemoteMachine, errors: str, *, greeted: bool) -> Failure:
    for known in _FAILURES:
        if found := known.pattern.search(errors):
            said = _line_with(errors, found.start())
            sentence = known.sentence.format(
                name=machine.name, destination=shlex.quote(machine.destination), said=said
            )
            return Failure(sentence, known.is_lasting, known.wants_answer)
    said = _last_line(errors)
    if greeted or not said:
        return Failure(f"The connection to {machine.name} broke{f': {said}' if said else '.'}")
    return Failure(f"`ssh` could not connect to {machine.name}: {said}")


def _not_found(machine: RemoteMachine) -> str:
    if machine.command != CONSOLE_SCRIPT:
        return (
            f"`{machine.command}` was not found on {machine.name}: correct the command with "
            f"`{call(f'machines remove {machine.name}')}` and `{call('machines add')}`."
        )
    again = call(f"machines add {machine.name} {shlex.quote(machine.destination)} --start PATH")
    return (
        f"Traindeck was not found on {machine.name}: install it there from a checkout or a wheel "
        "file, as here. If it is installed, a login by SSH has another PATH than a terminal: name "
        f"the program, `{again}`."
    )


def _line_with(text: str, at: int) -> str:
    begin = text.rfind("\n", 0, at) + 1
    return _sentence(text[begin:].partition("\n")[0])


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return _sentence(lines[-1]) if lines else ""


def _sentence(line: str) -> str:
    shown = "".join(each if each.isprintable() else " " for each in line).strip()[:300]
    return shown if shown.endswith((".", "!", "?")) else f"{shown}."
