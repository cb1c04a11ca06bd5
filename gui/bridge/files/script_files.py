"""Reads scripts of the user, their options, and the environments that can run them."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from engine.environments import registry
from engine.environments.activation import environment_folder
from engine.runs.checkpoints.script_files import resume_sentence
from engine.runs.run_info import RunInfo
from engine.scripts.interpreters import conda_environments, virtual_environments
from engine.scripts.options import Option, read_options
from engine.scripts.secrets import not_stored, shown_words
from engine.spec import catalog, recipe_file
from engine.spec.recipe_copy import recipe_of_run
from engine.spec.recipe_file import RecipeInfo
from engine.spec.run_spec import RunSpec
from engine.spec.script_spec import command_problems, default_strategy, resumes_by_calls
from engine.spec.spec_file import without_secrets
from engine.spec.validation import Problem
from gui.bridge.machines.machines import is_elsewhere

_USUAL_NAMES = (".venv", "venv")
_PARENTS = 3
"""Folders above the script in which environments are looked for."""


class ScriptPython(NamedTuple):
    """A Python that can run a script."""

    interpreter: str
    """Path of its program; empty: the Python of Traindeck."""

    title: str
    """Such as `.venv · Python 3.11.7`."""

    is_usual: bool = False
    """Whether it lies beside the script under a usual name, so that it is meant for it."""


def read_script(path: str) -> RecipeInfo:
    """Describe a script, whatever it holds; its `problem` says why it cannot run."""
    return recipe_file.read_script(Path(path))


def script_options(path: str) -> tuple[Option, ...]:
    """Return the options that the source of a script declares."""
    return read_options(Path(path)) if path.endswith(".py") else ()


def environments(script: str) -> list[ScriptPython]:
    """Return Traindeck's own Python, environments beside the script and above it, and conda's."""
    version = ".".join(map(str, sys.version_info[:3]))
    found = {"": ScriptPython("", f"Traindeck's own · Python {version}")}
    with contextlib.suppress(OSError):  # the page of recipes says that the list is damaged
        for known in registry.environments():
            version = known.facts.python
            title = f"{known.name} · Python {version}" if version else known.name
            found.setdefault(known.python, ScriptPython(known.python, title))
    folder = Path(script).parent
    for place in (folder, *folder.parents[:_PARENTS]):
        for each in virtual_environments(place):
            usual = place == folder and each.name in _USUAL_NAMES
            name = each.name if place == folder else f"{place.name}/{each.name}"
            found.setdefault(_program(each), _environment(each, name, usual))
    for each in conda_environments():
        name = f"conda {each.name}"
        found.setdefault(_program(each), _environment(each, name))
    return list(found.values())


def environment_of(interpreter: str) -> ScriptPython:
    """Return the environment of a Python that the user has chosen."""
    folder = environment_folder(Path(interpreter))
    name = folder.name if (folder / "pyvenv.cfg").exists() else interpreter
    return ScriptPython(interpreter, _environment(folder, name).title)


def interpreter_in(path: str) -> str:
    """Return the Python that a chosen file or folder means; itself if it is no environment."""
    folder = Path(path)
    return _program(folder) if folder.is_dir() else path


def script_problems(spec: RunSpec) -> list[Problem]:
    """Return why the command of `spec` cannot be started, with the fields."""
    return command_problems(spec, catalog.strategy(spec.strategy)) if spec.command else []


def name_of_run(recipe: RecipeInfo) -> str:
    """Return the name of a run of `recipe`, or of a script, to which the user gives none."""
    return recipe_file.script_name(Path(recipe.path)) if recipe.path else ""


def fitting_strategy(script: RecipeInfo, command: Sequence[str], devices: tuple[str, ...]) -> str:
    """Return the full name of the strategy that fits the code of a script best."""
    return default_strategy(command, script, devices)


def shown_command(spec: RunSpec, command: Sequence[str]) -> list[str]:
    """Return the words that a person would type in the folder of the script to run `command`."""
    if not command or not (command[0].endswith(".py") or command[0].startswith("-")):
        return list(command)
    python = Path(spec.interpreter) if spec.interpreter else Path("python")
    folder = Path(spec.working_folder) if spec.working_folder else Path(spec.recipe).parent
    shown = python.relative_to(folder) if python.is_relative_to(folder) else python
    return [str(shown), *command]


class ScriptFacts(NamedTuple):
    """A run of a script in words: how it was started, and what can be done with it."""

    command: str
    folder: str
    python: str
    variables: str
    """One a line, without the values of secrets."""

    resuming: str
    stopping: str
    saving: str
    figures: str


def by_calls(info: RunInfo, spec: RunSpec | None = None) -> bool:
    """Whether the calls of the module `traindeck` save and resume the script of a run."""
    if not info.spec.is_script or is_elsewhere(info):
        return False
    return resumes_by_calls(spec or info.spec, recipe_of_run(info.folder, info.spec))


def resuming(info: RunInfo, spec: RunSpec | None = None) -> str:
    """Return what resuming the run of a script means, with the settings `spec`, in a sentence."""
    return resume_sentence(info.folder, spec or info.spec, by_calls=by_calls(info, spec))


def script_facts(info: RunInfo) -> ScriptFacts:
    """Describe the run of a script."""
    spec = info.spec
    own = by_calls(info)
    variables = [f"{name}={value}" for name, value in storable(spec).variables.items()]
    variables += [
        f"{name}: {not_stored(spec.fingerprints.get(name))}"
        for name in storable(spec).secret_variables
    ]
    if own:
        stopping = "Saves a checkpoint at the next step, and ends the script."
        saving = "Saves what the script has passed to keep(). Resume continues exactly there."
    else:
        stopping = (
            "Saves the weights at the next step that all ranks reach, and ends the script. A "
            "script that takes no steps gets Ctrl-C, then SIGTERM, and may save by itself. "
            f"After {spec.stop_seconds:g} s it is killed."
        )
        saving = (
            "Saves the weights of the models and the state of their optimizers, for you to load. "
            "The position in the training loop is not saved: only the script knows it."
        )
    figures = (
        "Steps, losses and learning rates are read from the optimizers and from Keras' fit. All "
        "other curves, images and histograms are what the script logs, under its own names."
    )
    if spec.output_figures:
        more = "Printed metrics are read as long as the script logs none."
    else:
        more = "Printed metrics are not read."
    return ScriptFacts(
        command=shlex.join(shown_words(shown_command(spec, spec.command))),
        folder=spec.working_folder or str(Path(spec.recipe).parent),
        python=spec.interpreter or sys.executable,
        variables="\n".join(variables),
        resuming=resuming(info),
        stopping=stopping,
        saving=saving,
        figures=f"{figures} {more}",
    )


def storable(spec: RunSpec) -> RunSpec:
    """Return `spec` without the values that look like secrets."""
    return without_secrets(spec)[0]


def _program(environment: Path) -> str:
    for name in ("bin/python", "Scripts/python.exe"):
        if (environment / name).exists():
            return str(environment / name)
    return str(environment)


def _environment(folder: Path, name: str, is_usual: bool = False) -> ScriptPython:
    version = _version(folder)
    title = f"{name} · Python {version}" if version else name
    return ScriptPython(_program(folder), title, is_usual)


def _version(folder: Path) -> str:
    """Return the version of a virtual environment or of one of conda; empty if it is unknown."""
    try:
        for line in (folder / "pyvenv.cfg").read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition("=")
            if name.strip() in ("version", "version_info"):
                return ".".join(value.strip().split(".")[:3])
    except (OSError, ValueError):
        pass
    try:
        found = sorted((folder / "conda-meta").glob("python-3*.json"))
    except OSError:
        return ""
    return found[0].name.split("-")[1] if found else ""
