"""`run`: starts a command as a run, and follows it."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import msgspec

from engine.cli.devices import resolve_devices
from engine.cli.follow import CtrlC, follow_started_run, print_detached
from engine.cli.output import Exit, Refused, err
from engine.cli.transfers import tell_sent
from engine.interface.engine import Engine
from engine.interface.sent_code import UnfitCode, script_code
from engine.runs.run_notes import tags_of
from engine.scripts.command import script_of
from engine.spec.field_info import Setting
from engine.spec.run_spec import RunSpec
from engine.system.program import call


class ScriptOptions(NamedTuple):
    """The options of `run`; None: the default."""

    devices: str | None
    strategy: str | None
    environment: str | None
    variables: Sequence[str]
    """Such as `WANDB_MODE=offline`."""

    stored_variables: Sequence[str]
    """The same, whose values are stored whatever their names."""

    folder: str | None
    name: str | None
    tags: Sequence[str]
    resume_with: str | None
    output_figures: bool
    fields: Mapping[str, Setting]


def run(
    engine: Engine, script: Sequence[str], options: ScriptOptions, *, detach: bool, json: bool
) -> Exit:
    """Start a run of `script`, a command, and follow it to its end.

    Raises CannotStart, UnknownName, Refused.
    """
    spec = make_spec(engine, script, options)
    _tell_of_input()
    with CtrlC() as ctrl_c:
        run_id = engine.start(spec, tags_of(",".join(options.tags)))
        if detach:
            return print_detached(engine, run_id, json=json)
        return follow_started_run(engine, run_id, ctrl_c, after=0, attempt=1, json=json)


def _tell_of_input() -> None:
    """Say that the command will not have what is piped into this program, if anything is."""
    if _has_input():
        err().print(
            "The standard input is not passed on: the command reads nothing from it. Name a file "
            "in its arguments.",
            soft_wrap=True,
        )


def _has_input() -> bool:
    """Whether something is piped into this program, or a file is its standard input."""
    if "SSH_CONNECTION" in os.environ and "SSH_TTY" not in os.environ:
        return False  # a command of `ssh`, which always pipes
    try:
        mode = os.fstat(0).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)


def make_spec(engine: Engine, command: Sequence[str], options: ScriptOptions) -> RunSpec:
    """Return the spec that the command line asks for. Raises Refused, UnknownName, NoInterpreter.

    A script of this machine goes to that of the engine, unless `--folder` says where it lies there.
    """
    words = list(command)
    if words[:1] == ["--"]:
        words = words[1:]
    if not words:
        example = call("run --devices cpu:0 -- train.py --epochs 3", engine.machine)
        raise Refused(f"run needs a command after --, such as `{example}`.")
    folder = options.folder or ""
    if not engine.machine:
        folder = os.path.abspath(Path(folder or ".").expanduser())  # noqa: PTH100  # links stay
    elif not folder:
        folder, words = _send_script(engine, words)
    environment = options.environment
    spec = engine.describe_script(
        words,
        folder,
        resolve_devices(engine, options.devices),
        strategy=options.strategy or "",
        interpreter=engine.find_interpreter(environment, "", folder) if environment else "",
    )
    changes: dict[str, Any] = {
        **variable_changes(spec, options.variables, options.stored_variables),
        "resume_arguments": options.resume_with or "",
        "output_figures": options.output_figures,
        "name": options.name or spec.name,
    }
    return msgspec.structs.replace(spec, **changes, **options.fields)


def _send_script(engine: Engine, command: Sequence[str]) -> tuple[str, list[str]]:
    """Return the folder there in which `command` runs, and its words there.

    If it starts a script of this machine, that is sent, with the modules that it imports; otherwise
    the folder is empty, and the command unchanged. Raises Refused.
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
    file = PurePosixPath(engine.keep_code(code))
    tell_sent(engine.machine, code)
    return str(file.parent), [*command[:at], file.name, *command[at + 1 :]]


def variable_changes(
    before: RunSpec, texts: Sequence[str], stored: Sequence[str]
) -> dict[str, dict[str, str] | tuple[str, ...]]:
    """Return what `--var` and `--stored-var` change of a spec. Raises Refused."""
    given, kept = _variables_of(texts), _variables_of(stored)
    names = [name for name in before.stored_variables if name not in given]
    return {
        "variables": before.variables | given | kept,
        "stored_variables": tuple(dict.fromkeys([*names, *kept])),
    }


def _variables_of(texts: Sequence[str]) -> dict[str, str]:
    """Return the variables that `NAME=VALUE` gives; without a value, that of the environment here.

    Raises Refused.
    """
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals and name not in os.environ:
            raise Refused(
                "--var takes NAME=VALUE, or the name of a variable of the environment: "
                f"{text!r} is neither."
            )
        found[name] = value if equals else os.environ[name]
    return found
