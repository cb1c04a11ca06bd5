"""The command that starts this program, its version, and whether it runs in a source checkout."""

from __future__ import annotations

import shlex
import sys
import tomllib
from pathlib import Path

from engine.processes.process import PROJECT

CONSOLE_SCRIPT = "traindeck"
WITHOUT_ON = ("cluster", "machines", "new-recipe", "desktop-entry", "recipes")
"""Commands that work on the machine of their terminal only: they have no `--on`."""

IN_CHECKOUT = (PROJECT / "pyproject.toml").is_file()
"""Whether this is a checkout of the source, which has `main.py` and `tools/`."""


def program_words() -> list[str]:
    """Return the command of this program as words: `traindeck`, or `python main.py`."""
    is_script = Path(sys.argv[0]).stem == CONSOLE_SCRIPT
    return [CONSOLE_SCRIPT] if is_script or not IN_CHECKOUT else ["python", "main.py"]


_asked_from: tuple[str, str] | None = None


def answer_to(program: str, machine: str) -> None:
    """Let messages name commands as the person writes them who asks this from another machine.

    `program` starts Traindeck there, where this machine is called `machine`.
    """
    global _asked_from
    _asked_from = program, machine


def asked_from() -> tuple[list[str], str]:
    """Return the words that start Traindeck where a person asks this, and what that person calls
    this machine; an empty name: it is the same machine."""
    if _asked_from is None:
        return program_words(), ""
    return shlex.split(_asked_from[0]), _asked_from[1]


def call(arguments: str, machine: str = "") -> str:
    """Return the command line of this program with `arguments`, for a message.

    `machine`: the other machine on which the command does its work.
    """
    if _asked_from is not None:
        program, machine = _asked_from
    elif machine:
        program = " ".join(program_words())
    else:
        return " ".join([*program_words(), arguments])
    if arguments.split()[0] in WITHOUT_ON:
        return " ".join([*program_words(), arguments, f" # on {machine}"])
    own, dashes, command = arguments.partition(" -- ")
    return f"{program} {own} --on {machine}{dashes}{command}"


def version() -> str:
    """Return the version of the checkout, or of the installed package."""
    if IN_CHECKOUT:
        project = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]
        return str(project["version"])
    import importlib.metadata  # slow, and only an installed package needs it

    return importlib.metadata.version("traindeck")
