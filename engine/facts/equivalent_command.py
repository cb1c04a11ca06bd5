"""Writes the settings of the window's form as a command line."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from engine.environments import registry
from engine.environments.needs import package_of
from engine.environments.registry import OWN, UnreadableRegistry
from engine.facts.settings import RECIPE_DEFAULTS
from engine.scripts.command import script_of
from engine.scripts.secrets import may_store
from engine.spec import catalog
from engine.spec.field_info import Setting
from engine.spec.recipe_file import RecipeInfo
from engine.spec.run_spec import FIELDS, RunSpec
from engine.spec.script_spec import DECIDED_BY_SCRIPT
from engine.spec.spec_file import without_secrets
from engine.system.program import asked_from, program_words

DEFAULT_RECIPE = "digits"
DEFAULT_STRATEGY = "single"


def train_command(spec: RunSpec, tags: Sequence[str] = (), machine: str = "") -> str:
    """Return the `train` or `run` command for `spec`, quoted for a shell. Raises UnknownName.

    It holds the devices, whose default depends on the machine, and all other non-default values.
    `machine`: another one, to which the recipe or script is sent.
    """
    program, asked = asked_from()
    where = _flag("on", machine or asked) if machine or asked else []
    if spec.is_script:
        words = run_arguments(spec, is_sent=bool(machine))
        return shlex.join([*program, "run", *where, *_tags(tags), *words])
    words = train_arguments(spec, is_elsewhere=bool(machine))
    return shlex.join([*program, "train", *where, *words, *_tags(tags)])


def run_arguments(spec: RunSpec, *, is_sent: bool = False) -> list[str]:
    """Return the arguments after `run` for a script, one per entry. The values of secret variables
    come from the environment, and secrets in its command are left out.

    One that `is_sent` to another machine runs in a folder there, with a Python of that machine.
    """
    arguments = [*_flag("strategy", spec.strategy), *_flag("devices", ",".join(spec.devices))]
    folder = Path(spec.working_folder or Path(spec.recipe).parent)
    if not is_sent:
        arguments += _flag("folder", str(folder))
    if spec.interpreter:
        arguments += _flag("env", spec.interpreter) if is_sent else _environment(spec.interpreter)
    if spec.name:
        arguments += _flag("name", spec.name)
    spec, _ = without_secrets(spec)
    for name, value in spec.variables.items():
        flag = "--stored-var" if name in spec.stored_variables else "--var"
        arguments += [flag, f"{name}={value}"]
    for name in spec.secret_variables:
        arguments += ["--var", name]
    if spec.resume_arguments:
        arguments += _flag("resume-with", spec.resume_arguments)
    if not spec.output_figures:
        arguments.append("--no-output-figures")
    for name, info in FIELDS.items():
        if name not in DECIDED_BY_SCRIPT and getattr(spec, name) != info.default:
            arguments += _option(name, getattr(spec, name))
    script = str(script_of(spec.command, folder)) if is_sent else ""
    words = [script if str(folder / word) == script else word for word in spec.command]
    return [*arguments, "--", *words]


def resume_command(
    run_id: str,
    checkpoint: str,
    before: RunSpec,
    after: RunSpec,
    *,
    as_new: bool = False,
    recipe: RecipeInfo | None = None,
) -> str:
    """Return the `resume` command for the run `run_id`, quoted for a shell. Raises UnknownName.

    The run continues from `checkpoint` (empty: it has none, and starts from the beginning), with
    the changes from the spec `before` to `after`; with `as_new` it continues as a new run.
    `recipe`: that of the run; None: the one of the spec.
    """
    arguments = [run_id, *(_flag("checkpoint", checkpoint) if checkpoint else ())]
    if as_new:
        arguments.append("--as-new-run")
    if after.strategy != before.strategy:
        arguments += _flag("strategy", after.strategy)
    if after.devices != before.devices:
        arguments += _flag("devices", ",".join(after.devices))
    if after.interpreter != before.interpreter:
        arguments += _environment(after.interpreter)
    if after.name != before.name:
        arguments += _flag("name", after.name)
    if after.resume_arguments != before.resume_arguments:
        arguments += _flag("resume-with", after.resume_arguments)
    for name, text in after.variables.items():
        if before.variables.get(name) != text:
            is_stored = may_store(name, text, after.stored_variables)
            flag = "--stored-var" if name in after.stored_variables else "--var"
            arguments += [flag, f"{name}={text}" if is_stored else name]
    for name in FIELDS:
        if getattr(after, name) != getattr(before, name):
            arguments += _option(name, getattr(after, name))
    for field in (recipe or catalog.recipe_of(after)).fields:
        value = after.settings.get(field.name, field.default)
        if value != before.settings.get(field.name, field.default):
            arguments += ["--set", f"{field.name}={_text(value)}"]
    return shlex.join([*program_words(), "resume", *arguments])


def train_arguments(spec: RunSpec, *, is_elsewhere: bool = False) -> list[str]:
    """Return the arguments after `train`, one per entry. Raises UnknownName.

    With `is_elsewhere`, the Python is one of another machine, whose default is not known here.
    """
    recipe = catalog.recipe(spec.recipe)
    arguments = [] if spec.recipe == DEFAULT_RECIPE else _flag("recipe", spec.recipe)
    if spec.strategy != _default_strategy(spec):
        arguments += _flag("strategy", spec.strategy)
    arguments += _flag("devices", ",".join(spec.devices))
    if is_elsewhere:
        arguments += _flag("env", spec.interpreter or OWN)
    elif spec.interpreter != _default_interpreter(spec):
        arguments += _environment(spec.interpreter)
    if spec.name:
        arguments += _flag("name", spec.name)
    for name, info in FIELDS.items():
        value = getattr(spec, name)
        default = getattr(recipe, name) if name in RECIPE_DEFAULTS else info.default
        if value != default:
            arguments += _option(name, value)
    defaults = {field.name: field.default for field in recipe.fields}
    for name, value in spec.settings.items():
        if name not in defaults or value != defaults[name]:
            arguments += ["--set", f"{name}={_text(value)}"]
    return arguments


def change_flags(fields: Mapping[str, Setting | list[str]]) -> list[str]:
    """Return the flags of `train` for a change of these fields of a spec, one word per entry."""
    found: list[str] = []
    for name, value in fields.items():
        found += _flag(name, ",".join(value)) if isinstance(value, list) else _option(name, value)
    return found


def _tags(tags: Sequence[str]) -> list[str]:
    return [word for tag in tags for word in _flag("tag", tag)]


def _environment(interpreter: str) -> list[str]:
    """Return the flag for a Python, by the name of its environment where it has one."""
    if not interpreter:
        return _flag("env", OWN)
    try:
        return _flag("env", registry.name_of(interpreter) or interpreter)
    except UnreadableRegistry:
        return _flag("env", interpreter)


def _default_interpreter(spec: RunSpec) -> str:
    framework = package_of(spec.strategy.partition("/")[0])
    try:
        return registry.default_interpreter(framework)
    except UnreadableRegistry:
        return ""


def _default_strategy(spec: RunSpec) -> str:
    """Return the full name of the default strategy; empty if several match."""
    try:
        return catalog.strategy(DEFAULT_STRATEGY, catalog.recipe(spec.recipe)).name
    except catalog.UnknownName:
        return ""


def _option(name: str, value: Setting) -> list[str]:
    if isinstance(value, bool):
        return [("--" if value else "--no-") + name.replace("_", "-")]
    return _flag(name.replace("_", "-"), _text(value))


def _flag(name: str, text: str) -> list[str]:
    """Return flag and value; joined by `=` if the value looks like a flag."""
    return [f"--{name}={text}"] if text.startswith("-") else [f"--{name}", text]


def _text(value: Setting) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
