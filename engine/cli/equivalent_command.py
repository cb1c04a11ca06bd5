"""Writes the settings of the window's form as a command line."""

from __future__ import annotations

import shlex

from engine.cli.options import RECIPE_DEFAULTS
from engine.spec import catalog
from engine.spec.field_info import Setting
from engine.spec.recipe_file import RecipeInfo
from engine.spec.run_spec import FIELDS, RunSpec
from engine.system.program import program_words

DEFAULT_RECIPE = "digits"
DEFAULT_STRATEGY = "single"


def train_command(spec: RunSpec) -> str:
    """Return the `train` command for `spec`, quoted for a shell. Raises UnknownName.

    It holds the devices, whose default depends on the machine, and all other non-default values.
    """
    return shlex.join([*program_words(), "train", *train_arguments(spec)])


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
    if after.name != before.name:
        arguments += _flag("name", after.name)
    for name in FIELDS:
        if getattr(after, name) != getattr(before, name):
            arguments += _option(name, getattr(after, name))
    for field in (recipe or catalog.recipe(after.recipe)).fields:
        value = after.settings.get(field.name, field.default)
        if value != before.settings.get(field.name, field.default):
            arguments += ["--set", f"{field.name}={_text(value)}"]
    return shlex.join([*program_words(), "resume", *arguments])


def train_arguments(spec: RunSpec) -> list[str]:
    """Return the arguments after `train`, one per entry. Raises UnknownName."""
    recipe = catalog.recipe(spec.recipe)
    arguments = [] if spec.recipe == DEFAULT_RECIPE else _flag("recipe", spec.recipe)
    if spec.strategy != _default_strategy(spec):
        arguments += _flag("strategy", spec.strategy)
    arguments += _flag("devices", ",".join(spec.devices))
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
