"""`run`: starts a command as a run, and follows it."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from engine import client
from engine.cli.devices import default_devices, resolve_devices
from engine.cli.follow import CtrlC, follow_started_run, print_detached
from engine.cli.output import Exit, Refused, err
from engine.runs.run_notes import tags_of
from engine.scripts.interpreters import NoInterpreter, interpreter_of
from engine.spec import catalog
from engine.spec.field_info import Setting
from engine.spec.recipe_file import read_script
from engine.spec.run_spec import RunSpec
from engine.spec.script_spec import script_spec
from engine.system.program import call


class ScriptOptions(NamedTuple):
    """The options of `run`; None: the default."""

    devices: str | None
    strategy: str | None
    environment: str | None
    variables: Sequence[str]
    """Such as `WANDB_MODE=offline`."""

    folder: str | None
    name: str | None
    tags: Sequence[str]
    resume_with: str | None
    output_figures: bool
    fields: Mapping[str, Setting]


def run(command: Sequence[str], options: ScriptOptions, *, detach: bool, json: bool) -> Exit:
    """Start a run of `command` and follow it to its end.

    Raises CannotStart, UnknownName, Refused.
    """
    spec = make_spec(command, options)
    tell_of_input()
    with CtrlC() as ctrl_c:
        run_id = client.start(spec, tags_of(",".join(options.tags)))
        if detach:
            return print_detached(run_id, json=json)
        return follow_started_run(run_id, ctrl_c, after=0, attempt=1, json=json)


def tell_of_input() -> None:
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


def make_spec(command: Sequence[str], options: ScriptOptions) -> RunSpec:
    """Return the spec that the command line asks for. Raises Refused, UnknownName."""
    words = list(command)
    if words[:1] == ["--"]:
        words = words[1:]
    if not words:
        example = call("run --devices cpu:0 -- train.py --epochs 3")
        raise Refused(f"run needs a command after --, such as `{example}`.")
    folder = Path(os.path.abspath(Path(options.folder or ".").expanduser()))  # noqa: PTH100
    devices = default_devices() if options.devices is None else resolve_devices(options.devices)
    interpreter = interpreter_given(options.environment, folder) if options.environment else ""
    spec = script_spec(
        words,
        folder,
        devices,
        interpreter=interpreter,
        variables=variables_of(options.variables),
        resume_arguments=options.resume_with or "",
        output_figures=options.output_figures,
        name=options.name or "",
    )
    if options.strategy is not None:
        recipe = read_script(Path(spec.recipe))
        strategy = catalog.strategy(options.strategy, recipe).name
        spec = msgspec.structs.replace(spec, strategy=strategy)
    return msgspec.structs.replace(spec, **options.fields)


def interpreter_given(text: str, folder: Path) -> str:
    """Return the Python that `--env` names; empty: Traindeck's own. Raises Refused."""
    try:
        return interpreter_of(text, folder)
    except NoInterpreter as error:
        raise Refused(str(error)) from None


def variables_of(texts: Sequence[str]) -> dict[str, str]:
    """Return the variables that `--var NAME=VALUE` gives; without a value, that of the environment.

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
